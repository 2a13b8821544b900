"""Offsets of groups on their way back from the target to the source.

A group at the target has read the records before its offset. Records behind it are at the source in up to two places:
those that came from there, by the map of the flow, and those that went back, by the map of the return. The group
continues at the first of them, so that it misses none. With an exact return the offsets are the same.
"""

from __future__ import annotations

from ottla.client.admin.groups import CommittedOffset, Groups
from ottla.client.cluster import Cluster
from ottla.mirror.groups import IDLE_GROUP_STATES
from ottla.mirror.offset_map import MapReader
from ottla.mirror.progress import find_progress
from ottla.mirror.settings import FlowSettings, OffsetMode
from ottla.mirror.state import FlowState, Parting
from ottla.mirror.switching.report import SwitchReport
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["ReturningGroups"]


class ReturningGroups:
    """`flow` was failed over, `back` is its return."""

    def __init__(self, flow: FlowSettings, back: FlowSettings, source: Cluster, target: Cluster) -> None:
        self._flow = flow
        self._back = back
        self._source = source
        self._target = target
        self._there = MapReader(target, flow.source)
        self._returned = MapReader(source, flow.target)

    async def commit(self, state: FlowState, report: SwitchReport) -> None:
        """Commits the offsets of groups without members at the source, and notes them in the report."""
        if self._back.offset_mode is OffsetMode.TRANSLATED:
            await self._there.refresh()
            await self._returned.refresh()
        originals = {
            progress.pair.source: (progress.pair.target, state.parting(progress.pair.target) or Parting(0, 0))
            for progress in await find_progress(self._back, self._target, self._source, is_complete=True)
        }
        listed = await Groups(self._target).find()
        names = self._flow.groups.select(
            group.group_id for group in listed if group.type.lower() not in ("share", "streams")
        )
        described = await Groups(self._source).describe(names)
        for group_id in names:
            present = await Groups(self._target).offsets(group_id)
            offsets = {
                originals[copy][0]: CommittedOffset(
                    self.translate(originals[copy][0], copy, originals[copy][1], committed.offset),
                    metadata=committed.metadata,
                )
                for copy, committed in present.items()
                if copy in originals
            }
            if not offsets:
                continue
            group = described[group_id]
            if not isinstance(group, KafkaError) and group.state not in IDLE_GROUP_STATES:
                report.busy_groups.append(group_id)
                continue
            errors = await Groups(self._source).alter_offsets(group_id, offsets)
            for place, error in errors.items():
                if error is not None:
                    raise KafkaError(error.code, f"group {group_id}, {place}: {error.message}")
            report.groups[group_id] = len(offsets)
            if any(
                self._repeats(*originals[copy], committed.offset)
                for copy, committed in present.items()
                if copy in originals
            ):
                report.repeating_groups.append(group_id)

    def translate(self, place: TopicPartition, copy: TopicPartition, parting: Parting, offset: int) -> int:
        """The offset at the source of the first record that a group at an offset of the target has not read."""
        if self._back.offset_mode is OffsetMode.EXACT:
            return offset
        there, returned = self._there.maps[place], self._returned.maps[copy]
        if self._flow.offset_mode is OffsetMode.EXACT and offset < parting.source_position:
            # The offsets were the same up to the failover.
            return offset
        unread = [there.source_of_first_copied(offset), returned.target_of_first_copied(offset)]
        positions = [position for position in unread if position is not None]
        return min(positions) if positions else max(parting.source_position, there.source_end, returned.target_end)

    def _repeats(self, place: TopicPartition, parting: Parting, offset: int) -> bool:
        """Whether the group has unread records that came late to the target, behind records that it has read."""
        if self._back.offset_mode is OffsetMode.EXACT or offset <= parting.target_end:
            return False
        return self._there.maps[place].source_of_first_copied(offset) is not None

    async def close(self) -> None:
        await self._there.close()
        await self._returned.close()
