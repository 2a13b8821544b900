"""Gaps between offsets, which a follower copies from a leader that was compacted once.

After a crash, recovery takes a gap for damage, because the offset lies outside a batch's checksum, unless it is on disk
that this log may have gaps, or the topic is compacted. Then it is kept, but a follower has it sent once more.
"""

from __future__ import annotations

import pytest

from ottla.model.ids import TopicPartition
from ottla.storage.names import CLEANER_CHECKPOINT_FILE
from ottla.wire.messages.fetch import FetchRequest
from tests.support.data_path import batch
from tests.support.replica_cluster import ReplicaCluster

HERE = TopicPartition("t", 0)


def write_with_gaps(cluster: ReplicaCluster) -> None:
    """The leader's log as the cleaner left it, while the topic was still compacted."""
    log = cluster[1].log()
    for offset in (0, 3, 7, 8):
        log.append_as_follower(bytes(batch(f"at {offset}", base_offset=offset, leader_epoch=0)))
    cluster[1].partition().advance_high_watermark()


def checkpoint_of(cluster: ReplicaCluster, node_id: int) -> str:
    path = f"{cluster[node_id].directory}/{CLEANER_CHECKPOINT_FILE}"
    files = cluster.virtual.files
    return files.read_bytes(path).decode() if files.exists(path) else ""


@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_a_crash_after_copying_gaps_loses_nothing(pair: ReplicaCluster, policy: str) -> None:
    pair.cut_off(2)
    pair.create_topic(isr=[1], cleanup_policy=policy)
    write_with_gaps(pair)
    pair.reconnect()
    pair.run(1_000)
    assert pair[2].bytes() == pair[1].bytes()
    pair.cut_off(2)
    pair[2].crash()
    pair[2].start()
    assert pair[2].log().log_end_offset == 9
    assert pair[2].values() == ["at 0", "at 3", "at 7", "at 8"]


def test_it_is_on_disk_before_the_first_gap_is(pair: ReplicaCluster) -> None:
    pair.cut_off(2)
    pair.create_topic(isr=[1])
    write_with_gaps(pair)
    pair.reconnect()
    pair.virtual.workers.immediate = False
    pair.run(5_000)
    assert pair[2].log().log_end_offset == 0
    pair.virtual.workers.run_all()
    assert "t 0 0" in checkpoint_of(pair, 2)
    assert pair[2].log().log_end_offset == 0
    pair.virtual.workers.immediate = True
    pair.run(5_000)
    assert pair[2].bytes() == pair[1].bytes()


def test_a_log_without_gaps_is_not_noted(pair: ReplicaCluster) -> None:
    pair.create_topic()
    pair[1].produce("a")
    pair[1].produce("b")
    pair.run(1_000)
    assert pair[2].values() == ["a", "b"]
    assert checkpoint_of(pair, 2) == ""


def test_without_the_note_a_gap_counts_as_damage(pair: ReplicaCluster) -> None:
    """A single flipped bit in an offset must not make records vanish from, or appear in, a place of their own."""
    pair.create_topic()
    for text in "abc":
        pair[1].produce(text)
    pair.run(1_000)
    segment = pair[2].log().segments.active
    pair.cut_off(2)
    place = segment.size // 3 * 2
    segment.file.write_at(place + 6, b"\x01")
    pair[2].crash()
    pair[2].start()
    assert pair[2].values() == ["a", "b"]
    pair.reconnect()
    pair.run(2_000)
    assert pair[2].values() == ["a", "b", "c"]


def rot(cluster: ReplicaCluster, *, number: int, bit: int, batches: int = 3) -> None:
    """Changes the base offset of one batch of node 2, all of which are of the same size, and crashes it."""
    segment = cluster[2].log().segments.active
    cluster.cut_off(2)
    place = segment.size // batches * number
    base_offset = int.from_bytes(segment.file.read(place, 8), "big") ^ (1 << bit)
    segment.file.write_at(place, base_offset.to_bytes(8, "big"))
    cluster[2].crash()
    cluster.note_unclean_stop(2)
    cluster[2].start()


@pytest.mark.parametrize("bit", [0, 1, 2, 3, 29, 30, 31, 62, 63])
@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("written_meanwhile", [0, 8])
def test_a_follower_of_a_compacted_topic_mends_every_offset(
    pair: ReplicaCluster, number: int, bit: int, written_meanwhile: int
) -> None:
    pair.create_topic(cleanup_policy="compact")
    for text in "abc":
        pair[1].write(text, epoch=0)
    pair.run(1_000)
    assert pair[2].values() == ["a", "b", "c"]
    rot(pair, number=number, bit=bit)
    for _ in range(written_meanwhile):
        pair[1].write("d", epoch=0)
    pair.reconnect()
    pair.run(5_000)
    assert pair[2].bytes() == pair[1].bytes()
    assert pair[2].log().log_end_offset == 3 + written_meanwhile
    assert pair[2].log().doubtful_from is None


def test_honest_gaps_are_kept_by_who_has_to_lead(pair: ReplicaCluster) -> None:
    pair.cut_off(2)
    pair.create_topic(isr=[1], cleanup_policy="compact")
    write_with_gaps(pair)
    pair.reconnect()
    pair.run(1_000)
    pair.cut_off(1)
    pair[2].crash()
    pair[2].start()
    assert pair[2].log().doubtful_from == 0
    pair.run(5_000)
    assert pair[2].log().log_end_offset == 9, "it was not sent again"
    pair.elect(2, isr=[2])
    pair.run(1_000)
    assert pair[2].values() == ["at 0", "at 3", "at 7", "at 8"]
    # Others have copied it by now: it is the truth.
    assert pair[2].log().doubtful_from is None


def test_a_doubtful_end_is_not_counted_by_the_leader(pair: ReplicaCluster) -> None:
    pair.create_topic(cleanup_policy="compact")
    for text in "abc":
        pair[1].write(text, epoch=0)
    pair.run(1_000)
    rot(pair, number=2, bit=2)
    pair.requests.clear()
    pair.reconnect()
    pair.run(5_000)
    offsets = [
        partition.fetch_offset
        for sender, _, request in pair.requests
        if sender == 2 and isinstance(request, FetchRequest)
        for topic in request.topics
        for partition in topic.partitions
    ]
    assert offsets[0] == offsets[1] == 1
    assert max(offsets) == 3
    assert pair[2].bytes() == pair[1].bytes()


def test_a_leader_that_begins_behind_the_doubt_is_followed(pair: ReplicaCluster) -> None:
    pair.create_topic(cleanup_policy="compact,delete")
    for text in "abc":
        pair[1].write(text, epoch=0)
    pair.run(1_000)
    rot(pair, number=0, bit=4)
    leader = pair[1].partition()
    leader.log.update_high_watermark(3)
    leader.log.advance_log_start_offset(2)
    pair.reconnect()
    pair.run(5_000)
    assert pair[2].log().log_end_offset == 3
    assert pair[2].log().log_start_offset == 2
    assert pair[2].values()[-1:] == ["c"]
