"""Switches groups to the target one after another, while the mirror runs; and back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from dataclasses import dataclass

from ottla.client.admin.groups import CommittedOffset, Groups
from ottla.client.admin.offsets import EARLIEST, Offsets
from ottla.client.admin.topics import Topics
from ottla.client.cluster import Cluster
from ottla.mirror.copying.pairs import is_copied
from ottla.mirror.groups import IDLE_GROUP_STATES, Translator
from ottla.mirror.offset_map import MapReader
from ottla.mirror.progress import find_progress
from ottla.mirror.settings import FlowSettings, MirrorError, OffsetMode
from ottla.mirror.state import FlowStates, Phase
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["GroupPlace", "GroupSwitch", "find_groups"]

_PAUSE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """Where a group has members and offsets."""

    group: str
    members_at_source: int
    members_at_target: int
    partitions: int
    moved_partitions: int
    """Partitions whose offset at the target is that of the source, or later."""


async def find_groups(flow: FlowSettings, source: Cluster, target: Cluster) -> list[GroupPlace]:
    """All groups of the flow that have offsets in copied topics."""
    translator = Translator(flow, source, target)
    try:
        await translator.refresh()
        listed = await Groups(source).find()
        names = flow.groups.select(group.group_id for group in listed if group.type.lower() not in ("share", "streams"))
        group_places = []
        for name in names:
            wanted = await _translated(flow, translator, source, name)
            if not wanted:
                continue
            present = await Groups(target).offsets(name, list(wanted))
            moved = sum(
                place in present and present[place].offset >= committed.offset for place, committed in wanted.items()
            )
            members = [await _members(cluster, name) for cluster in (source, target)]
            group_places.append(GroupPlace(name, members[0], members[1], len(wanted), moved))
        return group_places
    finally:
        await translator.close()


async def _members(cluster: Cluster, group: str) -> int:
    described = (await Groups(cluster).describe([group]))[group]
    return 0 if isinstance(described, KafkaError) else len(described.members)


async def _translated(
    flow: FlowSettings, translator: Translator, source: Cluster, group: str
) -> dict[TopicPartition, CommittedOffset]:
    translated = {}
    for place, committed in (await Groups(source).offsets(group)).items():
        offset = translator.translate(place, committed.offset)
        if offset is not None:
            copy = TopicPartition(flow.policy.target_name(flow.source, place.topic), place.partition)
            translated[copy] = CommittedOffset(offset, metadata=committed.metadata)
    return translated


class GroupSwitch:
    """Moves groups. `say` is called with sentences for the operator."""

    def __init__(
        self, flow: FlowSettings, source: Cluster, target: Cluster, say: Callable[[str], None], *, seconds: float
    ) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self._say = say
        self._seconds = seconds

    async def switch(self, group: str) -> int:
        """Switches the group to the target. Returns the number of its partitions. Raises MirrorError."""
        flow = self._flow
        await self._wait_until_idle(self._source, flow.source, group)
        await self._wait_until_copied(group)
        translator = Translator(flow, self._source, self._target)
        try:
            await translator.refresh()
            offsets = await _translated(flow, translator, self._source, group)
            offsets.update(await self._starts_of_empty_copies(translator, group, offsets.keys()))
        finally:
            await translator.close()
        await self._commit(self._target, flow.target, group, offsets)
        return len(offsets)

    async def _starts_of_empty_copies(
        self, translator: Translator, group: str, known: Collection[TopicPartition]
    ) -> dict[TopicPartition, CommittedOffset]:
        """Offsets in copies without a record. Raises if a copy is missing: the group would skip or repeat records."""
        flow = self._flow
        topics = await Topics(self._source).all()
        empty = {}
        for place, committed in (await Groups(self._source).offsets(group)).items():
            copy = TopicPartition(flow.policy.target_name(flow.source, place.topic), place.partition)
            info = topics.get(place.topic)
            if copy in known or info is None or not is_copied(flow, place.topic, is_internal=info.is_internal):
                continue
            if not translator.is_begun(place):
                raise MirrorError(
                    f"Group {group} has an offset in {place}, which is not copied yet: is `ottla migrate copy` running?"
                )
            empty[copy] = committed.metadata
        starts = await Offsets(self._target).numbers(empty, EARLIEST) if empty else {}
        return {copy: CommittedOffset(start, metadata=empty[copy]) for copy, start in starts.items()}

    async def switch_back(self, group: str) -> int:
        """Returns the group to the source, behind the records that it has read at the target."""
        flow = self._flow
        await self._check_that_flow_runs()
        await self._wait_until_idle(self._target, flow.target, group)
        ends = {
            progress.pair.source: progress.end for progress in await find_progress(flow, self._source, self._target)
        }
        offsets = {}
        reader = MapReader(self._target, flow.source)
        try:
            await reader.refresh()
            for copy, committed in (await Groups(self._target).offsets(group)).items():
                topic = flow.policy.source_name(flow.source, copy.topic)
                if topic is None:
                    continue
                place = TopicPartition(topic, copy.partition)
                if place not in ends:
                    continue
                offset = committed.offset
                if flow.offset_mode is OffsetMode.TRANSLATED:
                    if place not in reader.maps:
                        continue
                    first = reader.maps[place].source_of_first_copied(offset)
                    offset = reader.maps[place].source_end if first is None else first
                # An offset behind the end would let the group skip what is written there later.
                offsets[place] = CommittedOffset(min(offset, ends[place]), metadata=committed.metadata)
        finally:
            await reader.close()
        await self._commit(self._source, flow.source, group, offsets)
        return len(offsets)

    async def _check_that_flow_runs(self) -> None:
        states = FlowStates(self._flow, self._target)
        try:
            phase = (await states.read()).phase
        finally:
            await states.close()
        if phase is not Phase.RUNNING:
            raise MirrorError(
                f"{self._flow.name} is {phase.value}: records that were written at {self._flow.target} are not at "
                f"{self._flow.source}. `ottla migrate back` brings them and all groups back."
            )

    async def _wait_until_idle(self, cluster: Cluster, name: str, group: str) -> None:
        deadline = asyncio.get_running_loop().time() + self._seconds
        has_asked = False
        while True:
            described = (await Groups(cluster).describe([group]))[group]
            if isinstance(described, KafkaError) or described.state in IDLE_GROUP_STATES:
                return
            if asyncio.get_running_loop().time() >= deadline:
                raise MirrorError(
                    f"Group {group} has {len(described.members)} members at {name}: stop them, and repeat the command."
                )
            if not has_asked:
                self._say(f"Stop the {len(described.members)} members of group {group} at {name} now.")
                has_asked = True
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _wait_until_copied(self, group: str) -> None:
        """Waits until the copies have all records that the group has read."""
        deadline = asyncio.get_running_loop().time() + self._seconds
        while True:
            committed = await Groups(self._source).offsets(group)
            behind = {
                progress.pair.source: committed[progress.pair.source].offset - progress.position
                for progress in await find_progress(self._flow, self._source, self._target)
                if progress.pair.source in committed
                and progress.position < min(committed[progress.pair.source].offset, progress.end)
            }
            if not behind:
                return
            if asyncio.get_running_loop().time() >= deadline:
                worst = max(behind, key=lambda place: behind[place])
                raise MirrorError(
                    f"Group {group} has read {behind[worst]} records of {worst} that are not copied yet: is "
                    "`ottla migrate copy` running?"
                )
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _commit(
        self, cluster: Cluster, name: str, group: str, offsets: dict[TopicPartition, CommittedOffset]
    ) -> None:
        if not offsets:
            raise MirrorError(f"Group {group} has no offsets in topics that are copied.")
        described = (await Groups(cluster).describe([group]))[group]
        if not isinstance(described, KafkaError) and described.state not in IDLE_GROUP_STATES:
            raise MirrorError(f"Group {group} has members at {name} already: its offsets were left alone.")
        for place, error in (await Groups(cluster).alter_offsets(group, offsets)).items():
            if error is not None:
                raise KafkaError(error.code, f"group {group}, {place}: {error.message}")
        present = await Groups(cluster).offsets(group, list(offsets))
        for place, wanted in offsets.items():
            if place not in present or present[place].offset != wanted.offset:
                raise MirrorError(f"Group {group}: the offset of {place} at {name} is not {wanted.offset}; repeat.")
