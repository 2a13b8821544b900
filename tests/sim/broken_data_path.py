"""Nodes with a defect in how they store and replicate records. Each breaks one promise, which a checker must notice."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.apis import write_txn_markers
from ottla.model.ports import FileRegion
from ottla.records.build import set_checksum
from ottla.records.header import read_header
from ottla.replica.isr import IsrKeeper
from ottla.replica.leadership import LeaderState
from ottla.replica.manager import ReplicaManager
from ottla.replica.partition import Partition
from ottla.replica.producing import WaitingProduce
from ottla.storage.log import PartitionLog, ReadResult
from ottla.storage.producer_state import ProducerState
from ottla.storage.segment_repair import SegmentRepair
from ottla.wire.connection.server import ServerConnection


def answers_before_replication(patch: pytest.MonkeyPatch) -> None:
    """acks=all is answered as soon as the leader has the record."""
    patch.setattr(WaitingProduce, "wait_for_safety", lambda *_: None)


def starts_requests_as_they_arrive(patch: pytest.MonkeyPatch) -> None:
    """A request behind a waiting one is evaluated at once and answered later."""
    patch.setattr(ServerConnection, "_may_start", lambda *_: True)


def serves_beyond_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """The leader treats all of its own records as committed."""

    def advance(partition: Partition) -> None:
        log = partition.log
        if partition.leader_state is not None and log.log_end_offset > log.high_watermark:
            log.update_high_watermark(log.log_end_offset)
            for parked in (*partition.parked_produces, *partition.parked_fetches):
                partition.parking.wake(parked)

    patch.setattr(Partition, "advance_high_watermark", advance)


def high_watermark_follows_any_follower(patch: pytest.MonkeyPatch) -> None:
    """The high watermark is sometimes below the fetch offset of the follower that asked last."""
    advance = Partition.on_follower_fetch
    fetches = 0

    def on_follower_fetch(partition: Partition, node_id: int, *, fetch_offset: int, **more: Any) -> None:
        nonlocal fetches
        fetches += 1
        advance(partition, node_id, fetch_offset=fetch_offset, **more)
        if fetches % 5:
            return
        partition.log.high_watermark = max(0, min(partition.log.high_watermark, fetch_offset - 3))

    patch.setattr(Partition, "on_follower_fetch", on_follower_fetch)


def commits_without_a_joining_replica(patch: pytest.MonkeyPatch) -> None:
    """While the controller's answer is missing, only the former in-sync set counts."""
    high_watermark = LeaderState.high_watermark

    def without_pending(state: LeaderState, *arguments: Any) -> int:
        maximal_isr, state.maximal_isr = state.maximal_isr, state.isr
        try:
            return high_watermark(state, *arguments)
        finally:
            state.maximal_isr = maximal_isr

    patch.setattr(LeaderState, "high_watermark", without_pending)


def follower_counts_the_next_record_as_committed(patch: pytest.MonkeyPatch) -> None:
    """The high watermark of a follower is one record beyond the end of its log."""
    follow = Partition.follow_high_watermark

    def follow_high_watermark(partition: Partition, high_watermark: int) -> None:
        follow(partition, high_watermark)
        if partition.topic == "t" and partition.high_watermark == partition.log.log_end_offset:
            partition.log.update_high_watermark(partition.log.log_end_offset + 1)

    patch.setattr(Partition, "follow_high_watermark", follow_high_watermark)


def ignores_sequence_numbers(patch: pytest.MonkeyPatch) -> None:
    """A batch that a producer sends again is appended again."""
    patch.setattr(ProducerState, "check", lambda state, header, origin: None)


def follower_stamps_batches_itself(patch: pytest.MonkeyPatch) -> None:
    """A follower writes its own time into copied batches."""
    append = PartitionLog.append_as_follower

    def append_as_follower(log: PartitionLog, buffer: Any, **more: Any) -> Any:
        changed = bytearray(buffer)
        # The last byte of the newest timestamp.
        changed[42] ^= 1
        set_checksum(memoryview(changed)[: read_header(changed).size])
        return append(log, changed, **more)

    patch.setattr(PartitionLog, "append_as_follower", append_as_follower)


def nobody_comes_back_into_sync(patch: pytest.MonkeyPatch) -> None:
    """A leader never adds a follower to the in-sync set."""
    patch.setattr(IsrKeeper, "consider_joining", lambda *_: None)


def aborted_transactions_are_not_listed(patch: pytest.MonkeyPatch) -> None:
    """Fetch responses do not list the aborted transactions."""
    patch.setattr(PartitionLog, "aborted_in_read", lambda *_, **__: [])


def one_partition_never_hears_of_commits(patch: pytest.MonkeyPatch) -> None:
    """Transactions end in some partitions only."""
    append = write_txn_markers.append_marker

    def append_abort(partition: Partition, marker: Any, **more: Any) -> Any:
        if partition.index == 0:
            marker = marker._replace(is_commit=False)
        return append(partition, marker, **more)

    patch.setattr(write_txn_markers, "append_marker", append_abort)


def follower_truncates_too_much(patch: pytest.MonkeyPatch) -> None:
    """A follower of a new leader first truncates some committed records."""
    become_follower = Partition.become_follower

    def cut_and_follow(partition: Partition, **more: Any) -> None:
        become_follower(partition, **more)
        log = partition.log
        if log.log_end_offset > 10:
            log.truncate_to(log.log_end_offset - 10)

    patch.setattr(Partition, "become_follower", cut_and_follow)


def leader_does_not_step_down(patch: pytest.MonkeyPatch) -> None:
    """A leader continues to lead in spite of a newer epoch."""
    become_follower = Partition.become_follower

    def go_on(partition: Partition, **more: Any) -> None:
        if partition.leader_state is None:
            become_follower(partition, **more)

    patch.setattr(Partition, "become_follower", go_on)


def reads_skip_a_batch(patch: pytest.MonkeyPatch) -> None:
    """A fetch sometimes begins behind the requested batch."""
    read = PartitionLog.read
    reads = 0

    def read_less(log: PartitionLog, offset: int, **more: Any) -> ReadResult:
        nonlocal reads
        result = read(log, offset, **more)
        region = result.region
        if region is None:
            return result
        reads += 1
        size = read_header(memoryview(region.read())).size
        if reads % 20 or size == len(region):
            return result
        return result._replace(region=FileRegion(region.file, region.position + size, len(region) - size))

    patch.setattr(PartitionLog, "read", read_less)


def damaged_segments_stay_damaged(patch: pytest.MonkeyPatch) -> None:
    """Damage is logged and not repaired."""
    patch.setattr(ReplicaManager, "repair", lambda *_: None)


def repairs_with_fewer_records(patch: pytest.MonkeyPatch) -> None:
    """A repair installs its copy before the last batch has arrived."""
    add = SegmentRepair.add

    def add_less(repair: SegmentRepair, records: bytes, aborted: Any) -> None:
        size = read_header(memoryview(records)).size
        add(repair, records[:size], aborted)
        repair.is_complete = True

    patch.setattr(SegmentRepair, "add", add_less)
