"""Runs a worker of a flow, again and again until it is stopped: in a thread, or as a task of a Spark job."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from ottla.client.errors import ClientError
from ottla.mirror.copying.exact import ExactCopier
from ottla.mirror.copying.translated import Leftover, TranslatedCopier
from ottla.mirror.settings import FlowSettings, MirrorError, OffsetMode
from ottla.mirror.state import FlowEnded
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["copy_forever", "run_on_spark"]

logger = logging.getLogger("ottla.mirror.copying")

_PAUSE_SECONDS = 1.0
_PAUSE_SECONDS_MAX = 30.0


async def copy_forever(
    flow: FlowSettings,
    number: int,
    should_stop: Callable[[], bool],
    run_id: str | None = None,
    leftovers: Mapping[TopicPartition, Leftover] | None = None,
) -> None:
    """Copies until it is stopped, and waits for clusters that cannot be reached, for hours if need be.

    Raises MirrorError if another mirror does the same work, or the settings do not fit the clusters; FlowEnded if the
    flow was failed over.
    """
    pause = _PAUSE_SECONDS
    while not should_stop():
        copier = (
            ExactCopier(flow, number, run_id)
            if flow.offset_mode is OffsetMode.EXACT
            else TranslatedCopier(flow, number, run_id, leftovers=leftovers)
        )
        begun = asyncio.get_running_loop().time()
        try:
            await copier.run(should_stop)
        except (KafkaError, ClientError) as error:
            if asyncio.get_running_loop().time() - begun > _PAUSE_SECONDS_MAX:
                pause = _PAUSE_SECONDS
            logger.warning("%s, worker %d: %s; again in %.0f s", flow.name, number, error, pause)
            await _sleep(pause, should_stop)
            pause = min(pause * 2, _PAUSE_SECONDS_MAX)


async def _sleep(seconds: float, should_stop: Callable[[], bool]) -> None:
    end = asyncio.get_running_loop().time() + seconds
    while not should_stop() and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(min(0.2, seconds))


def run_on_spark(context: SparkContext, flow: FlowSettings, number: int, group: str, run_id: str) -> None:
    """One worker as a job of one long task. `group` is the job group by which jobs can be cancelled.

    Each worker is a job of its own, so that the failure of a worker is reported at once. Raises MirrorError.
    """
    context.setJobGroup(group, f"mirror {flow.name}, worker {number}", interruptOnCancel=True)

    def work(numbers: Iterable[int]) -> Iterator[tuple[str, bool]]:
        for worker in numbers:
            try:
                asyncio.run(copy_forever(flow, worker, lambda: False, run_id))
            except MirrorError as error:
                # Returned as a result: Spark would restart a failed task, against the mirror that has taken over.
                yield str(error), isinstance(error, FlowEnded)

    for reason, has_ended in context.parallelize([number], 1).mapPartitions(work).collect():
        raise FlowEnded(reason) if has_ended else MirrorError(reason)
