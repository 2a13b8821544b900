"""Offsets of groups at the target: checkpoints for clients that switch, and commits for groups that are idle there."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Mapping

from ottla.client.admin.groups import CommittedOffset, Groups
from ottla.client.admin.offsets import EARLIEST, LATEST, Offsets
from ottla.client.admin.topics import Topics
from ottla.client.cluster import Cluster
from ottla.client.consumer import Consumer, ConsumerSettings
from ottla.client.producer import Producer, ProducerSettings
from ottla.mirror.copying.pairs import is_copied
from ottla.mirror.messages import Checkpoint, MalformedMessage
from ottla.mirror.offset_map import MapReader, Run, map_topic
from ottla.mirror.settings import FlowSettings, OffsetMode
from ottla.mirror.topics import TopicSync
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["IDLE_GROUP_STATES", "RUNS_MAX", "TRIM_SECONDS", "GroupSync", "Translator", "read_checkpoints"]

logger = logging.getLogger("ottla.mirror.groups")

_READ_WAIT_MS = 1_000
IDLE_GROUP_STATES = frozenset({"Empty", "Dead"})
RUNS_MAX = 4_000_000
"""Runs of a flow's map, 25 bytes each. A partition that is written all the time gets a run for each transaction."""
TRIM_SECONDS = 600.0
"""The interval of `GroupSync.trim_map`."""
_RUNS_OF_PARTITION_MIN = 100


class Translator:
    """Translates offsets of the source to the target. In an exact copy they are the same, up to the end of the copy."""

    def __init__(self, flow: FlowSettings, source: Cluster, target: Cluster) -> None:
        self._is_exact = flow.offset_mode is OffsetMode.EXACT
        self._topics = TopicSync(flow, source, target)
        # The ends of exact copies, by the partition at the source.
        self._ends: Mapping[TopicPartition, int] = {}
        self._has_fixed_ends = False
        self._target = target
        self._map = MapReader(target, flow.source)

    async def refresh(self) -> None:
        """Reads what was added to the map since the last call."""
        if not self._is_exact:
            await self._map.refresh()
        elif not self._has_fixed_ends:
            await self._find_ends()

    def fix_ends(self, ends: Mapping[TopicPartition, int]) -> None:
        """Sets the ends of exact copies that were released, by the partition at the source."""
        self._ends = ends
        self._has_fixed_ends = True

    async def _find_ends(self) -> None:
        """Finds the ends of exact copies. A released topic has none, because its offsets differ from the source's."""
        pairs = await self._topics.pairs()
        are_copies = await self._topics.exact_copies({pair.target.topic for pair in pairs})
        ends = await Offsets(self._target).find(
            {pair.target: LATEST for pair in pairs if are_copies.get(pair.target.topic)}
        )
        self._ends = {
            pair.source: end.offset
            for pair in pairs
            if (end := ends.get(pair.target)) is not None and not isinstance(end, KafkaError)
        }

    def translate(self, partition: TopicPartition, offset: int) -> int | None:
        """None if nothing of the partition was copied."""
        if self._is_exact:
            # An offset behind the end would let a group skip what is written there after a switch.
            return min(offset, self._ends[partition]) if partition in self._ends else None
        maps = self._map.maps
        return maps[partition].translate(offset) if partition in maps else None

    def is_begun(self, partition: TopicPartition) -> bool:
        """Whether the partition is copied, also if it had no record to copy yet."""
        return partition in (self._ends if self._is_exact else self._map.origins)

    def forget_before(self, starts: Mapping[TopicPartition, int]) -> list[tuple[TopicPartition, Run]]:
        """Removes the runs of records that the source has deleted, and returns them."""
        return [
            (place, run)
            for place, start in starts.items()
            if place in self._map.maps
            for run in self._map.maps[place].forget_before(start)
        ]

    def thin(self, runs_max: int) -> tuple[list[tuple[TopicPartition, Run]], list[tuple[TopicPartition, Run]]]:
        """Removes old runs if the flow has too many. Returns the changed runs, and the removed runs."""
        maps = self._map.maps
        if sum(map(len, maps.values())) <= runs_max:
            return [], []
        changed, gone = [], []
        # The room that partitions with few runs leave to other partitions is not used.
        limit = max(_RUNS_OF_PARTITION_MIN, runs_max // len(maps))
        for place, runs in maps.items():
            thinned, forgotten = runs.thin(limit)
            changed += [(place, run) for run in thinned]
            gone += [(place, run) for run in forgotten]
        return changed, gone

    @property
    def partitions(self) -> list[TopicPartition]:
        """Partitions of the source that have a map."""
        return list(self._map.maps)

    async def close(self) -> None:
        await self._map.close()


class GroupSync:
    """The groups of one flow."""

    def __init__(self, flow: FlowSettings, source: Cluster, target: Cluster) -> None:
        self._flow = flow
        self._source = source
        self._target = target
        self.translator = Translator(flow, source, target)
        self._producer = Producer(target, ProducerSettings(linger_ms=0))
        self._names: list[str] = []
        self._last: dict[tuple[str, TopicPartition], Checkpoint] = {}

    async def refresh(self) -> None:
        """Finds the groups of the source that are followed."""
        listed = await Groups(self._source).find()
        followed = [group for group in listed if group.type.lower() not in ("share", "streams")]
        self._names = self._flow.groups.select(group.group_id for group in followed)

    async def checkpoint(self) -> list[Checkpoint]:
        """Translates the committed offsets of all groups, and writes those that have changed."""
        await self.translator.refresh()
        topics = await Topics(self._source).all()
        copied = {name for name, info in topics.items() if is_copied(self._flow, name, is_internal=info.is_internal)}
        checkpoints: list[Checkpoint] = []
        for group_id in self._names:
            for place, committed in (await self._offsets(group_id)).items():
                offset = self.translator.translate(place, committed.offset) if place.topic in copied else None
                if offset is not None:
                    copy = TopicPartition(
                        self._flow.policy.target_name(self._flow.source, place.topic), place.partition
                    )
                    checkpoints.append(Checkpoint(group_id, copy, committed.offset, offset, committed.metadata))
        changed = [
            checkpoint
            for checkpoint in checkpoints
            if self._last.get((checkpoint.group_id, checkpoint.partition)) != checkpoint
        ]
        topic = self._flow.policy.checkpoints_topic(self._flow.source)
        deliveries = [
            await self._producer.send(topic, checkpoint.value(), key=checkpoint.key(), partition=0)
            for checkpoint in changed
        ]
        await asyncio.gather(*[_delivered(delivery) for delivery in deliveries])
        self._last.update({(checkpoint.group_id, checkpoint.partition): checkpoint for checkpoint in changed})
        return checkpoints

    async def last_checkpoints(self) -> list[Checkpoint]:
        """The checkpoints at the target, translated again: for a source that cannot be reached.

        The map may have grown since they were written, so the offsets at the target may be later.
        """
        await self.translator.refresh()
        checkpoints: list[Checkpoint] = []
        for checkpoint in await read_checkpoints(self._target, self._flow.policy.checkpoints_topic(self._flow.source)):
            topic = self._flow.policy.source_name(self._flow.source, checkpoint.partition.topic)
            offset = (
                self.translator.translate(
                    TopicPartition(topic, checkpoint.partition.partition), checkpoint.source_offset
                )
                if topic is not None
                else None
            )
            if offset is not None and self._flow.groups.matches(checkpoint.group_id):
                checkpoints.append(checkpoint._replace(target_offset=offset))
        return checkpoints

    async def _offsets(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        try:
            return await Groups(self._source).offsets(group_id)
        except KafkaError as error:
            # Missing rights on a group do not affect the other groups.
            logger.warning("%s: the offsets of %s cannot be read: %s", self._flow.name, group_id, error)
            return {}

    async def trim_map(self, runs_max: int = RUNS_MAX) -> int:
        """Deletes the part of the map before the first records of the source, and thins the rest if need be.

        The map would grow for ever otherwise. Returns the number of deleted runs.
        """
        starts = await Offsets(self._source).find(dict.fromkeys(self.translator.partitions, EARLIEST))
        known = {place: start.offset for place, start in starts.items() if not isinstance(start, KafkaError)}
        forgotten = self.translator.forget_before(known)
        thinned, gone = self.translator.thin(runs_max)
        # First the thinned runs, which mark where runs are missing: without them a group would skip records.
        await self._write_runs([(place, run, run.value()) for place, run in thinned])
        await self._write_runs([(place, run, None) for place, run in (*forgotten, *gone)])
        return len(forgotten) + len(gone)

    async def _write_runs(self, runs: list[tuple[TopicPartition, Run, bytes | None]]) -> None:
        topic = map_topic(self._flow.source)
        deliveries = [
            await self._producer.send(topic, value, key=run.key(place), partition=0) for place, run, value in runs
        ]
        await asyncio.gather(*[_delivered(delivery) for delivery in deliveries])

    async def commit(self, checkpoints: list[Checkpoint]) -> dict[str, int]:
        """Commits translated offsets of groups that have no members at the target, and are behind there.

        Returns the number of partitions that were moved, by group.
        """
        by_group: dict[str, list[Checkpoint]] = defaultdict(list)
        for checkpoint in checkpoints:
            by_group[checkpoint.group_id].append(checkpoint)
        described = await Groups(self._target).describe(by_group)
        moved: dict[str, int] = {}
        for group_id, group_checkpoints in by_group.items():
            group = described[group_id]
            if not isinstance(group, KafkaError) and group.state not in IDLE_GROUP_STATES:
                continue
            present = await Groups(self._target).offsets(
                group_id, [checkpoint.partition for checkpoint in group_checkpoints]
            )
            ahead = {
                checkpoint.partition: CommittedOffset(checkpoint.target_offset, metadata=checkpoint.metadata)
                for checkpoint in group_checkpoints
                if checkpoint.partition not in present
                or present[checkpoint.partition].offset < checkpoint.target_offset
            }
            if not ahead:
                continue
            errors = await Groups(self._target).alter_offsets(group_id, ahead)
            moved[group_id] = sum(error is None for error in errors.values())
            for place, error in errors.items():
                if error is not None:
                    logger.warning(
                        "%s: the offset of %s in %s cannot be set: %s", self._flow.name, group_id, place, error
                    )
        return moved

    async def close(self) -> None:
        await self._producer.close()
        await self.translator.close()


async def read_checkpoints(target: Cluster, topic: str) -> list[Checkpoint]:
    """The last checkpoint of every group and partition."""
    place = TopicPartition(topic, 0)
    end = (await Offsets(target).numbers([place], LATEST, committed=True))[place]
    checkpoints: dict[bytes, Checkpoint] = {}
    settings = ConsumerSettings(auto_offset_reset="earliest", auto_commit=False, read_committed=True)
    async with Consumer(target, settings) as consumer:
        await consumer.assign([place])
        while consumer.position(place) < end:
            for record in await consumer.poll(_READ_WAIT_MS):
                if record.key is not None and record.value is not None:
                    try:
                        checkpoints[record.key] = Checkpoint.decode(record.key, record.value)
                    except MalformedMessage as error:
                        logger.warning("%s at offset %d: %s", place, record.offset, error)
    return list(checkpoints.values())


async def _delivered(delivery: object) -> None:
    await delivery  # type: ignore[misc]
