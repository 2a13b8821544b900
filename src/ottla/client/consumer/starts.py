"""Finds the positions of newly assigned partitions: the committed offset, or the place of the reset policy."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Mapping

from ottla.client.admin.groups import CommittedOffset, Groups
from ottla.client.admin.offsets import EARLIEST, LATEST, FoundOffset, Offsets
from ottla.client.cluster import Cluster
from ottla.client.consumer.positions import PartitionState, Positions
from ottla.client.consumer.settings import ConsumerSettings
from ottla.client.consumer.truncation import EpochEnd
from ottla.client.errors import ClientError, LogTruncated
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["Starts"]

# The wait of all partitions for a position that is not known at once, and the pause before its next lookup.
_LOOK_MS = 2_000
_LOOK_AGAIN_SECONDS = 5.0


class Starts:
    def __init__(self, cluster: Cluster, settings: ConsumerSettings, positions: Positions) -> None:
        self._cluster = cluster
        self._settings = settings
        self._positions = positions
        self.groups = Groups(cluster)
        self.offsets = Offsets(cluster)
        # Lookups at leaders that answer too late for a poll.
        self._late: set[asyncio.Task[None]] = set()
        # Called when a late lookup has ended.
        self.on_found: Callable[[], object] = lambda: None

    async def close(self) -> None:
        """Ends the late lookups."""
        for task in self._late:
            task.cancel()
        await asyncio.gather(*self._late, return_exceptions=True)

    async def find_due(self) -> None:
        """Looks for the unknown positions, unless their last lookup was a moment ago."""
        now = asyncio.get_running_loop().time()
        unknown = [
            partition for partition in self._positions.unknown if self._positions.get(partition).look_again <= now
        ]
        if unknown:
            await self._find(unknown)

    def after_out_of_range(self, state: PartitionState) -> KafkaError | None:
        """The log does not have the position: the reset policy decides, or the application gets the error."""
        if self._settings.auto_offset_reset == "none":
            return KafkaError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"{state.partition} has no offset {state.fetch_offset}; begin elsewhere, as with --from-beginning.",
            )
        state.reset()
        return None

    def after_truncation(self, state: PartitionState, end: EpochEnd | None) -> KafkaError | None:
        """The log was truncated before the position: records that were read are gone, and new ones replace them."""
        if self._settings.auto_offset_reset == "none":
            return LogTruncated(state.partition, position=state.position, leader_epoch=state.leader_epoch, end=end)
        if end is None:
            state.reset()
        else:
            state.seek(end.offset, end.epoch)
        return None

    async def committed(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, CommittedOffset]:
        if self._settings.group_id is None:
            raise ClientError("Committed offsets belong to a group: set group.id (--group on the command line).")
        group_id, wanted = self._settings.group_id, list(partitions)
        # Retried while a transaction with some of these offsets is completing.
        return await self._cluster.retry(lambda: self.groups.offsets(group_id, wanted, stable=True))

    async def numbers(self, partitions: Iterable[TopicPartition], at: int) -> dict[TopicPartition, int]:
        """The first or last offsets of partitions."""
        return await self.offsets.numbers(partitions, at, committed=self._settings.read_committed)

    async def for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, FoundOffset | None]:
        """The first record from each timestamp on; None if there is none."""
        answers = await self.offsets.find(times, committed=self._settings.read_committed)
        result: dict[TopicPartition, FoundOffset | None] = {}
        for partition, answer in answers.items():
            if isinstance(answer, KafkaError):
                raise KafkaError(answer.code, f"{partition}: {answer.message}")
            result[partition] = None if answer.offset < 0 else answer
        return result

    async def _find(self, partitions: list[TopicPartition]) -> None:
        left = partitions
        candidates = [partition for partition in partitions if not self._positions.get(partition).forgets_commits]
        if self._settings.group_id is not None and candidates:
            committed = await self.committed(candidates)
            for partition, commit in committed.items():
                state = self._positions.states.get(partition)
                if state is not None and state.position < 0:
                    state.seek(commit.offset, commit.leader_epoch)
            left = [partition for partition in partitions if partition not in committed]
        if not left:
            return
        if self._settings.auto_offset_reset == "none":
            raise ClientError(f"There is no committed offset for {left[0]}, and auto_offset_reset is none.")
        times = dict.fromkeys(left, self._reset_time())
        missing = await self._begin_at(times, timeout_ms=_LOOK_MS)
        if missing and len(self._positions.unknown) == len(self._positions.states):
            # There are no other partitions to read meanwhile.
            missing = await self._begin_at({partition: times[partition] for partition in missing})
            for partition, error in missing.items():
                raise KafkaError(error.code, f"{partition}: {error.message}")
        elif late := [partition for partition, error in missing.items() if error.code == ErrorCode.REQUEST_TIMED_OUT]:
            self._find_later({partition: times[partition] for partition in late})

    def _find_later(self, times: Mapping[TopicPartition, int]) -> None:
        """Looks the positions up in the background: the lookups of polls may be too short for a slow leader."""
        states = {partition: state for partition in times if (state := self._positions.states.get(partition))}
        for state in states.values():
            state.look_again = math.inf
        task = asyncio.ensure_future(self._find_late(states, {partition: times[partition] for partition in states}))
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _find_late(
        self, states: Mapping[TopicPartition, PartitionState], times: Mapping[TopicPartition, int]
    ) -> None:
        try:
            answers = await self.offsets.find(times, committed=self._settings.read_committed)
            for partition, answer in answers.items():
                offset = await self._offset_of(partition, answer) if isinstance(answer, FoundOffset) else -1
                if offset >= 0 and states[partition].position < 0:
                    states[partition].seek(offset)
        except (ClientError, KafkaError):
            # The next lookup reports an error that lasts.
            pass
        finally:
            for state in states.values():
                state.look_again = 0.0
            self.on_found()

    def _reset_time(self) -> int:
        """The time of the first record to read without a committed offset."""
        age_ms = self._settings.reset_age_ms
        if age_ms is not None:
            return max(int(time.time() * 1000) - age_ms, 0)
        return EARLIEST if self._settings.auto_offset_reset == "earliest" else LATEST

    async def _begin_at(
        self, times: Mapping[TopicPartition, int], *, timeout_ms: int | None = None
    ) -> dict[TopicPartition, KafkaError]:
        """Sets positions by time. Returns the partitions without a leader: no other partition waits for them."""
        answers = await self.offsets.find(times, committed=self._settings.read_committed, timeout_ms=timeout_ms)
        missing: dict[TopicPartition, KafkaError] = {}
        for partition, answer in answers.items():
            state = self._positions.states.get(partition)
            if state is None or state.position >= 0:
                continue
            if not isinstance(answer, FoundOffset):
                state.look_again = asyncio.get_running_loop().time() + _LOOK_AGAIN_SECONDS
                missing[partition] = answer
            else:
                state.seek(await self._offset_of(partition, answer))
        for partition, error in missing.items():
            # A leader may refuse a partition that it has just got, which ends soon.
            is_gone = error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            is_gone = is_gone and self._cluster.metadata.leader_of(*partition) < 0
            if not error.code.retriable or is_gone:
                raise KafkaError(error.code, f"{partition}: {error.message}")
        return missing

    async def _offset_of(self, partition: TopicPartition, answer: FoundOffset) -> int:
        """The offset of a lookup by time. If no record is as young as the duration, it is the end of the partition."""
        return answer.offset if answer.offset >= 0 else (await self.numbers([partition], LATEST))[partition]
