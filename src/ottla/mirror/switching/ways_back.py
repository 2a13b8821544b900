"""The flows of a failback, made from the flow that was failed over.

    leftovers   records that were written at the old side meanwhile go to the other side, where consumers are
    return      records that were written to the copies go back to the topics that the copies came from

Both flows mark their records with the clusters that the records were in, so that neither flow copies records that the
other flow has brought.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from ottla.client.admin.groups import CommittedOffset, Groups
from ottla.client.admin.topics import NewTopic, Topics
from ottla.client.cluster import Cluster
from ottla.mirror.copying.fencing import fence_workers
from ottla.mirror.copying.pairs import find_pairs, is_copied
from ottla.mirror.copying.translated import Leftover
from ottla.mirror.copying.workers import copy_forever
from ottla.mirror.names import NameFilter, ReturnPolicy
from ottla.mirror.offset_map import map_topic
from ottla.mirror.settings import FlowSettings, OffsetMode
from ottla.mirror.state import FlowState, FlowStates
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["copy_until", "find_new_topics", "leftover_flow", "prepare", "return_flow", "set_positions"]

_PAUSE_SECONDS = 0.2


def _only(names: list[str]) -> NameFilter:
    return NameFilter(", ".join(re.escape(name) for name in sorted(names)))


def leftover_flow(flow: FlowSettings, state: FlowState) -> FlowSettings:
    """A translated flow continues by itself; an exact copy gets the records that it lacks from a translated flow."""
    if flow.offset_mode is OffsetMode.TRANSLATED:
        return replace(flow, cuts_cycles=True, bytes_per_second=0)
    return replace(
        flow,
        offset_mode=OffsetMode.TRANSLATED,
        role="leftovers",
        topics=_only(list(state.partings)),
        cuts_cycles=True,
        bytes_per_second=0,
    )


def leftovers_of(flow: FlowSettings, state: FlowState) -> dict[TopicPartition, Leftover]:
    if flow.offset_mode is OffsetMode.TRANSLATED:
        return {}
    return {
        TopicPartition(topic, number): Leftover(parting.source_position, parting.open_transactions)
        for topic, partings in state.partings.items()
        for number, parting in partings.items()
    }


def return_flow(flow: FlowSettings, state: FlowState, mode: OffsetMode) -> FlowSettings:
    originals = {flow.policy.target_name(flow.source, topic): topic for topic in state.partings}
    return replace(
        flow,
        source=flow.target,
        target=flow.source,
        source_client=flow.target_client,
        target_client=flow.source_client,
        policy=ReturnPolicy(originals=originals),
        topics=_only(list(originals)),
        offset_mode=mode,
        role="return",
        cuts_cycles=True,
        starts_at="earliest",
        bytes_per_second=0,
        heartbeats_s=0.0,
    )


async def find_new_topics(
    flow: FlowSettings, source: Cluster, target: Cluster, state: FlowState
) -> dict[str, list[int]]:
    """Topics that were created at the target after the failover, by their names at the source, and their partitions.

    They have the name of a copy, but the source has no such topic.
    """
    topics, copies = await asyncio.gather(Topics(source).all(), Topics(target).all())
    new_topics = {}
    for copy, info in copies.items():
        name = flow.policy.source_name(flow.source, copy)
        if name is None or name in topics or name in state.partings or info.error is not None:
            continue
        if is_copied(flow, name, is_internal=info.is_internal) and flow.topics.matches(name):
            new_topics[name] = sorted(info.partitions)
    return new_topics


async def prepare(flow: FlowSettings, target: Cluster, run_id: str) -> None:
    """Makes this run the owner of a flow of a failback."""
    states = FlowStates(flow, target)
    try:
        await states.claim(run_id)
    finally:
        await states.close()
    await fence_workers(flow, target)
    brokers = len((await target.refresh([])).brokers)
    new = NewTopic(
        name=map_topic(flow.source),
        partitions=1,
        replication_factor=min(flow.internal_replication_factor, max(1, brokers)),
        configs={"cleanup.policy": "compact"},
    )
    for result in (await Topics(target).create([new])).values():
        if isinstance(result, KafkaError) and result.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise result


async def set_positions(
    flow: FlowSettings, source: Cluster, target: Cluster, starts: Mapping[TopicPartition, int]
) -> None:
    """Lets a translated flow begin at these offsets of its source. A flow at a later position continues there."""
    topics, copies = await asyncio.gather(Topics(source).all(), Topics(target).all())
    pairs = find_pairs(flow, topics, copies, worker=0, workers=1)
    present = await Groups(target).offsets(flow.group_id, [pair.target for pair in pairs], stable=True)
    behind = {
        pair.target: CommittedOffset(starts[pair.source], metadata=pair.topic_ids)
        for pair in pairs
        if pair.source in starts
        and (
            pair.target not in present
            or present[pair.target].metadata != pair.topic_ids
            or present[pair.target].offset < starts[pair.source]
        )
    }
    if behind:
        for place, error in (await Groups(target).alter_offsets(flow.group_id, behind)).items():
            if error is not None:
                raise KafkaError(error.code, f"{place}: {error.message}")


async def copy_until(
    flow: FlowSettings,
    run_id: str,
    is_done: Callable[[], Awaitable[bool]],
    leftovers: Mapping[TopicPartition, Leftover] | None = None,
) -> None:
    """Runs the workers of a flow in this process until a condition holds. Raises the exception that ends a worker."""
    stopping = asyncio.Event()
    workers = [
        asyncio.ensure_future(copy_forever(flow, number, stopping.is_set, run_id, leftovers))
        for number in range(flow.tasks)
    ]
    try:
        while not await is_done():
            done, _ = await asyncio.wait(workers, timeout=_PAUSE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            for worker in done:
                worker.result()
        stopping.set()
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
