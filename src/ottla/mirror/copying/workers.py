"""Runs a worker of a flow, again and again until it is stopped: in a thread, or as a task of a Spark job."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from ottla.client.errors import ClientError
from ottla.mirror.copying.exact import ExactCopier
from ottla.mirror.copying.translated import TranslatedCopier
from ottla.mirror.settings import FlowSettings, MirrorError, OffsetMode
from ottla.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["copy_forever", "run_on_spark"]

logger = logging.getLogger("ottla.mirror.copying")

_PAUSE_SECONDS = 1.0
_PAUSE_SECONDS_MAX = 30.0
_FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)


async def copy_forever(flow: FlowSettings, number: int, should_stop: Callable[[], bool]) -> None:
    """A cluster that cannot be reached is waited for, for hours if need be.

    Raises MirrorError if another mirror does the same work, or the settings do not fit what is there.
    """
    pause = _PAUSE_SECONDS
    while not should_stop():
        copier = ExactCopier(flow, number) if flow.offset_mode is OffsetMode.EXACT else TranslatedCopier(flow, number)
        begun = asyncio.get_running_loop().time()
        try:
            await copier.run(should_stop)
        except (KafkaError, ClientError) as error:
            if isinstance(error, KafkaError) and error.code in _FENCED:
                raise MirrorError(
                    f"{flow.name}: another mirror has taken over worker {number}. A flow runs once; stop one of them."
                ) from error
            if asyncio.get_running_loop().time() - begun > _PAUSE_SECONDS_MAX:
                pause = _PAUSE_SECONDS
            logger.warning("%s, worker %d: %s; again in %.0f s", flow.name, number, error, pause)
            await _sleep(pause, should_stop)
            pause = min(pause * 2, _PAUSE_SECONDS_MAX)


async def _sleep(seconds: float, should_stop: Callable[[], bool]) -> None:
    end = asyncio.get_running_loop().time() + seconds
    while not should_stop() and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(min(0.2, seconds))


def run_on_spark(context: SparkContext, flow: FlowSettings, group: str) -> None:
    """One long task for each worker. `group` is the job group by which the job can be cancelled."""
    context.setJobGroup(group, f"mirror {flow.name}", interruptOnCancel=True)

    def work(index: int, _: Iterable[int]) -> Iterator[int]:
        asyncio.run(copy_forever(flow, index, lambda: False))
        yield index

    context.parallelize(range(flow.tasks), flow.tasks).mapPartitionsWithIndex(work).collect()
