"""Damaged closed segments: fetched from another replica, never served, and no intact copy is given up meanwhile."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.broker.apis import fetch
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.model.ports import FileRegion
from ottla.storage.lookups import aborted_transactions
from ottla.storage.segment import Segment
from ottla.storage.segment_repair import SegmentRepair
from ottla.wire.messages import metadata_records as r
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from tests.support.data_path import values
from tests.support.replica_cluster import ReplicaCluster, ReplicaNode
from tests.unit.replica.test_replicated_transactions import end, write

Make = Callable[..., ReplicaCluster]

COUNT = 20


def filled(cluster: ReplicaCluster, *, replicas: tuple[int, ...] = (1, 2)) -> ReplicaCluster:
    """A topic of several segments on all nodes."""
    cluster.create_topic(replicas=replicas, internal_segment_bytes="400", index_interval_bytes="1")
    for number in range(COUNT):
        cluster[1].produce(f"value-{number:02d}" * 5)
    cluster.run(2_000)
    for node_id in replicas:
        assert len(cluster[node_id].log().segments) > 3
        assert cluster[node_id].partition().high_watermark == COUNT
    return cluster


def read(node: ReplicaNode, offset: int, *, max_bytes: int = 1 << 20) -> PartitionData:
    """A consumer's fetch at this node, which may be a follower."""
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    request = FetchRequest(max_bytes=max_bytes, topics=[FetchTopic(topic="t", partitions=[wanted])])
    answer = node.call(fetch, request, 11)
    if isinstance(answer, Deferred):
        answer = answer.result()
    data: PartitionData = answer.responses[0].partitions[0]
    return data


def texts(data: PartitionData) -> list[str]:
    records = data.records
    return values(records.read() if isinstance(records, FileRegion) else bytes(records or b""))  # type: ignore[arg-type]


def path_of(segment: Segment) -> Path:
    return Path(segment.path)


def flip(segment: Segment, *, position: int = 16) -> None:
    """Position 16 is the format version of the first batch."""
    content = bytearray(path_of(segment).read_bytes())
    content[position] ^= 0x5A
    path_of(segment).write_bytes(content)


def cut(segment: Segment) -> None:
    os.truncate(path_of(segment), segment.size // 3)


def remove(segment: Segment) -> None:
    """The file was not open, as those of old segments mostly are."""
    segment.release()
    path_of(segment).unlink()


def fill_with_zeros(segment: Segment) -> None:
    path_of(segment).write_bytes(bytes(segment.size))


DAMAGES = [flip, cut, remove, fill_with_zeros]


def damaged(node: ReplicaNode) -> list[int]:
    return sorted(node.log().files.failures.damaged_segments)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_follower_fetches_a_damaged_segment_again(
    damage: Callable[[Segment], None], pair: ReplicaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    filled(pair)
    segment, after = pair[2].log().segments[1], pair[2].log().segments[2]
    last = after.base_offset - 1
    damage(segment)
    codes = {read(pair[2], offset).error_code for offset in range(segment.base_offset, last + 1)}
    assert ErrorCode.CORRUPT_MESSAGE in codes
    assert damaged(pair[2]) == [segment.base_offset]
    pair.run(5_000)
    assert damaged(pair[2]) == []
    assert pair[2].bytes() == pair[1].bytes()
    assert read(pair[2], last).error_code == ErrorCode.NONE
    assert pair.truth().isr == (1, 2)
    assert [
        record.message for record in caplog.records if "was repaired with the records of broker 1" in record.message
    ]
    # A restart finds the same log.
    pair[2].stop()
    pair[2].start()
    assert pair[2].bytes() == pair[1].bytes()
    assert pair[2].log().doubtful_from is None


@pytest.mark.parametrize("accepts", [True, False])
def test_a_leader_hands_over_and_is_repaired(accepts: bool, pair: ReplicaCluster) -> None:
    """Without log directories in the metadata the leader stays, and is repaired all the same."""
    filled(pair)
    pair.accepts_lost_replicas = accepts
    segment = pair[1].log().segments[1]
    flip(segment)
    assert read(pair[1], segment.base_offset).error_code == ErrorCode.CORRUPT_MESSAGE
    pair.run(100)
    assert pair.truth().leader == (2 if accepts else 1)
    if accepts:
        assert read(pair[2], segment.base_offset).error_code == ErrorCode.NONE
    pair.run(10_000)
    assert damaged(pair[1]) == []
    assert pair[1].bytes() == pair[2].bytes()
    assert sorted(pair.truth().isr) == [1, 2]


def test_a_lost_end_is_an_error_until_it_is_repaired(pair: ReplicaCluster) -> None:
    filled(pair)
    pair[2].stop()
    segment, after = pair[2].log().segments[1], pair[2].log().segments[2]
    header = next(iter(segment_batches(segment)))
    os.truncate(path_of(segment), header)
    pair[2].start()
    pair.run()
    data = read(pair[2], after.base_offset - 1)
    assert data.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    pair.run(5_000)
    data = read(pair[2], after.base_offset - 1, max_bytes=1)
    assert texts(data) == [f"value-{after.base_offset - 1:02d}" * 5]
    assert pair[2].bytes() == pair[1].bytes()


def segment_batches(segment: Segment) -> list[int]:
    """The ends of the batches."""
    content = path_of(segment).read_bytes()
    ends, position = [], 0
    while position < len(content):
        position += 12 + int.from_bytes(content[position + 8 : position + 12], "big")
        ends.append(position)
    return ends


def test_a_rotten_record_in_a_known_damaged_segment_is_not_served(pair: ReplicaCluster) -> None:
    filled(pair)
    pair.cut_off(1)
    log = pair[2].log()
    segment = log.segments[1]
    first, second = segment_batches(segment)[:2]
    flip(segment, position=second - 1)
    # Only a check of every byte finds the damage.
    log.files.failures.note_damaged(segment.base_offset, "a checksum is wrong")
    data = read(pair[2], segment.base_offset)
    assert len(data.records) == first  # type: ignore[arg-type]
    assert read(pair[2], segment.base_offset + 1).error_code == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize("accepts", [True, False])
def test_each_replica_repairs_the_damage_of_the_other(accepts: bool, pair: ReplicaCluster) -> None:
    """Truncating a follower to its first damaged segment would give up the only intact copy of the other one."""
    filled(pair)
    pair.accepts_lost_replicas = accepts
    whole = pair[1].bytes()
    early, late = pair[2].log().segments[0], pair[1].log().segments[2]
    flip(early)
    flip(late)
    assert read(pair[2], early.base_offset).error_code == ErrorCode.CORRUPT_MESSAGE
    pair.run(5_000)
    assert read(pair[1], late.base_offset).error_code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    pair.run(20_000)
    assert (damaged(pair[1]), damaged(pair[2])) == ([], [])
    assert pair[1].bytes() == pair[2].bytes() == whole


def test_damage_in_all_replicas_stays_an_error_and_takes_nothing_away(pair: ReplicaCluster) -> None:
    filled(pair)
    pair.accepts_lost_replicas = True
    base_offset = pair[1].log().segments[1].base_offset
    for node_id in (1, 2):
        flip(pair[node_id].log().segments[1])
        read(pair[node_id], base_offset)
    pair.run(30_000)
    for node_id in (1, 2):
        assert damaged(pair[node_id]) == [base_offset]
        assert read(pair[node_id], base_offset).error_code == ErrorCode.CORRUPT_MESSAGE
        assert read(pair[node_id], pair[1].log().segments[2].base_offset).error_code == ErrorCode.NONE
    assert sorted(pair.truth().isr) == [1, 2]
    pair[pair.truth().leader].produce("next", acks=-1)
    pair.run(1_000)
    assert pair[1].log().log_end_offset == pair[2].log().log_end_offset == COUNT + 1
    # Leadership does not go back and forth.
    assert pair.truth().leader_epoch <= 2


def test_records_that_no_replica_has_are_skipped_and_logged(
    pair: ReplicaCluster, caplog: pytest.LogCaptureFixture
) -> None:
    filled(pair)
    offset = pair[1].log().segments[2].base_offset
    for node_id in (1, 2):
        pair[node_id].stop()
        segment = pair[node_id].log().segments[1]
        os.truncate(path_of(segment), segment_batches(segment)[0])
        pair[node_id].start()
    pair.run(1_000)
    assert read(pair[1], offset - 1).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    pair.run(30_000)
    data = read(pair[1], offset - 1, max_bytes=1)
    assert texts(data) == [f"value-{offset:02d}" * 5]
    assert [record.levelname for record in caplog.records if "no replica has the missing" in record.message]


def test_an_only_replica_serves_what_is_intact(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    cluster = filled(make(nodes=(1,)), replicas=(1,))
    log = cluster[1].log()
    flip(log.segments[1])
    base_offset, following = log.segments[1].base_offset, log.segments[2].base_offset
    assert read(cluster[1], base_offset).error_code == ErrorCode.CORRUPT_MESSAGE
    cluster.run(300_000)
    assert read(cluster[1], base_offset).error_code == ErrorCode.CORRUPT_MESSAGE
    assert read(cluster[1], following).error_code == ErrorCode.NONE
    errors = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) == 2, errors
    assert "cannot be repaired, because no other replica is in sync" in errors[1]


def test_an_only_replica_skips_a_lost_end_after_an_error(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    cluster = filled(make(nodes=(1,)), replicas=(1,))
    cluster[1].stop()
    segment, following = cluster[1].log().segments[1], cluster[1].log().segments[2].base_offset
    os.truncate(path_of(segment), segment_batches(segment)[0])
    cluster[1].start()
    assert read(cluster[1], following - 1).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    cluster.run(100)
    data = read(cluster[1], following - 1, max_bytes=1)
    assert texts(data) == [f"value-{following:02d}" * 5]
    assert sum(record.levelno == logging.ERROR for record in caplog.records) == 2
    # A second replica that never had the records copies the gap.
    assert cluster[1].log().files.failures.gaps_to_skip == {segment.base_offset}


def test_the_index_of_aborted_transactions_is_repaired(make: Make) -> None:
    cluster = make()
    cluster.create_topic(internal_segment_bytes="400", index_interval_bytes="1")
    cluster.run(1_000)
    for node_id in (1, 2):
        cluster[node_id].broker.world = cluster.virtual.world
    for number in range(12):
        # Several transactions of one producer, which end in other segments than they begin in.
        write(cluster[1], f"value-{number:02d}" * 8, sequence=number)
        if number % 3 == 2:
            end(cluster[1], commit=number % 2 == 0)
        write(cluster[1], f"other-{number:02d}" * 8, producer_id=8, sequence=number)
        cluster.run(500)
    end(cluster[1], commit=False, producer_id=8)
    for _ in range(4):
        cluster[1].produce("x" * 200)
    cluster.run(2_000)
    log = cluster[2].log()
    expected = [tuple(entry)[:3] for entry in aborted_transactions(log.segments, 0, log.log_end_offset)]
    assert len(expected) == 3
    for number in range(len(log.segments) - 1):
        segment = log.segments[number]
        Path(segment.transaction_index.path).unlink(missing_ok=True)
        fill_with_zeros(segment)
        read(cluster[2], segment.base_offset)
    cluster.run(60_000)
    assert damaged(cluster[2]) == []
    assert cluster[2].bytes() == cluster[1].bytes()
    assert [tuple(entry)[:3] for entry in aborted_transactions(log.segments, 0, log.log_end_offset)] == expected


def test_a_compacted_log_is_copied_from_its_beginning(make: Make) -> None:
    """The two replicas may have removed different records, and no gap is an error."""
    pair = filled(make(log_cleaner_enable="false"))
    pair.commit(r.ConfigRecord(resource_type=2, resource_name="t", name="cleanup.policy", value="compact"))
    bases = [segment.base_offset for segment in pair[2].log().segments]
    segment = pair[2].log().segments[2]
    # Compaction has left a gap at the end of the leader's first segment.
    first = pair[1].log().segments[0]
    os.truncate(path_of(first), segment_batches(first)[0])
    pair[1].stop()
    pair[1].start()
    flip(segment)
    assert read(pair[2], segment.base_offset).error_code == ErrorCode.CORRUPT_MESSAGE
    pair.run(10_000)
    assert damaged(pair[2]) == []
    assert pair[2].bytes() == pair[1].bytes()
    assert [segment.base_offset for segment in pair[2].log().segments] == bases


def test_a_damaged_active_segment_is_closed_and_repaired(pair: ReplicaCluster) -> None:
    filled(pair)
    active = pair[2].log().segments.active
    flip(active)
    # The positions of the last batches are remembered.
    pair[2].log()._tail.recent.clear()
    assert read(pair[2], active.base_offset).error_code == ErrorCode.CORRUPT_MESSAGE
    pair[1].produce("next")
    pair.run(10_000)
    assert damaged(pair[2]) == []
    assert pair[2].bytes() == pair[1].bytes()


def test_a_damaged_active_segment_is_repaired_after_a_restart(pair: ReplicaCluster) -> None:
    """Its largest timestamp is unknown then, and cannot be read."""
    filled(pair)
    pair[2].stop()
    pair[2].start()
    pair.run()
    active = pair[2].log().segments.active
    flip(active)
    assert read(pair[2], active.base_offset).error_code == ErrorCode.CORRUPT_MESSAGE
    pair.run(10_000)
    assert damaged(pair[2]) == []
    assert pair[2].bytes() == pair[1].bytes()
    assert pair[2].log().log_end_offset == COUNT


def test_a_repair_survives_changes_of_the_log(pair: ReplicaCluster) -> None:
    filled(pair)
    segment = pair[2].log().segments[0]
    flip(segment)
    read(pair[2], 0)
    # Retention removes the segment before it is repaired.
    pair[2].partition().log.advance_log_start_offset(pair[2].log().segments[1].base_offset)
    pair[2].log().delete_segments([segment])
    pair.run(5_000)
    assert damaged(pair[2]) == []
    assert read(pair[2], pair[2].log().log_start_offset).error_code == ErrorCode.NONE


def test_a_leader_that_lost_its_end_leads_and_is_repaired_where_it_cannot_hand_over(pair: ReplicaCluster) -> None:
    """Without log directories in the metadata, the broker cannot ask the controller for another leader."""
    filled(pair)
    whole = pair[2].bytes()
    active = pair[1].log().segments.active
    os.truncate(path_of(active), active.size // 3)
    pair[1].log().files.find_damage(0)
    pair.run(3_000)
    assert pair.truth().leader == 1
    assert pair[1].partition().is_leader
    pair[1].produce("next", acks=-1)
    pair.run(20_000)
    assert damaged(pair[1]) == []
    assert pair[1].bytes() == pair[2].bytes()
    assert pair[1].bytes().startswith(whole)


@pytest.mark.parametrize("is_read_first", [True, False])
def test_a_follower_that_diverges_behind_damage_is_truncated_and_filled_again(
    is_read_first: bool, pair: ReplicaCluster
) -> None:
    """The damage is in the segment in which the logs diverge, which the high watermark does not pass before."""
    filled(pair)
    pair.cut_off(2)
    pair.elect(1, isr=[1])
    pair.run(1_000)
    for _ in range(2):
        pair[2].write("lost", epoch=0)
    pair[1].produce("kept")
    log = pair[2].log()
    segment = log.segments[log.segments.number_of(COUNT - 1)]
    flip(segment)
    if is_read_first:
        read(pair[2], segment.base_offset)
    pair.reconnect()
    pair.run(20_000)
    assert pair[2].bytes() == pair[1].bytes()
    assert damaged(pair[2]) == []
    assert pair.truth().isr == (1, 2)


def test_a_truncation_between_two_sources_does_not_stop_the_repairs(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader that was elected although it lacked records makes its followers truncate committed ones."""
    cluster = filled(make(nodes=(1, 2, 3)), replicas=(1, 2, 3))
    log = cluster[2].log()
    cut = log.segments[1].base_offset + 1
    abandon, cuts = SegmentRepair.abandon, [cut]

    def truncate_meanwhile(repair: SegmentRepair) -> None:
        abandon(repair)
        if cuts:
            log.truncate_to(cuts.pop())

    monkeypatch.setattr(SegmentRepair, "abandon", truncate_meanwhile)
    cluster.cut_off(1)
    for segment in list(log.segments)[:2]:
        flip(segment, position=70)
    log.files.failures.note_damaged(log.segments[1].base_offset, "its checksum is wrong")
    cluster.run(1_000)
    assert not cuts
    cluster.reconnect()
    log.files.failures.note_damaged(0, "its checksum is wrong")
    cluster.run(20_000)
    assert damaged(cluster[2]) == []
    assert cluster[2].bytes() == cluster[1].bytes()
