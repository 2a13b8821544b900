"""Gaps between offsets, which a follower copies from a leader that was compacted once.

After a crash, recovery takes a gap for damage, because the offset lies outside a batch's checksum, unless it is on disk
that this log may have gaps.
"""

from __future__ import annotations

import pytest

from ottla.model.ids import TopicPartition
from ottla.storage.names import CLEANER_CHECKPOINT_FILE
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
