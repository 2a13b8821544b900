"""Small duties, many logs."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.model.deferred import Deferred
from ottla.model.ids import TopicPartition
from ottla.storage import maintenance
from ottla.storage.maintenance import flush_all
from ottla.storage.names import REPLICATION_OFFSET_FILE
from tests.unit.storage.helpers import values_of
from tests.unit.storage.test_manager import Node


class Flushed:
    """A log that needs no flush, or one whose flush takes a while."""

    def __init__(self, result: Deferred[None]) -> None:
        self.result = result
        self.is_asked = False

    def flush(self) -> Deferred[None]:
        self.is_asked = True
        return self.result


def test_any_number_of_logs_without_work_is_flushed() -> None:
    logs: list[Any] = [Flushed(Deferred.resolved(None)) for _ in range(20_000)]
    assert flush_all(logs).done
    assert all(log.is_asked for log in logs)


def test_a_few_flushes_run_at_a_time_and_all_are_waited_for() -> None:
    logs: list[Any] = [Flushed(Deferred()) for _ in range(30)]
    done = flush_all(logs)
    under_way = [log for log in logs if log.is_asked]
    assert 1 < len(under_way) < 30
    for number, log in enumerate(logs):
        assert log.is_asked
        assert not done.done
        if number % 2:
            log.result.resolve(None)
        else:
            log.result.fail(OSError("one failure does not stop the others"))
    assert done.done


def test_the_checkpoints_of_a_deleted_topic_say_nothing_about_a_new_one_of_that_name() -> None:
    node = Node()
    node.start()
    partition = TopicPartition("t", 0)
    log = node.create("t")
    for number in range(20):
        node.append(log, b"old-%d" % number)
    log.update_high_watermark(20)
    log.advance_log_start_offset(15)
    log.flush()
    node.logs.checkpoint().result()
    node.logs.delete(partition)
    node.append(node.create("t"), b"new")
    node.kill()
    value = node.start().get(partition)
    assert value is not None
    assert (value.log_start_offset, values_of(value)) == (0, [b"new"])


def test_a_truncation_takes_the_recovery_point_back_on_disk_too() -> None:
    node = Node()
    node.start()
    log = node.create("t", segment_bytes=200)
    for number in range(10):
        node.append(log, b"old-%d" % number)
    log.flush()
    node.logs.checkpoint().result()
    assert "t 0 10" in node.files.read_bytes("/d1/recovery-point-offset-checkpoint").decode()
    log.truncate_to(2)
    node.world.scheduler.run()
    assert "t 0 2" in node.files.read_bytes("/d1/recovery-point-offset-checkpoint").decode()


def test_recovery_points_of_large_closed_segments_are_on_disk_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "_CLOSED_BYTES_MAX", 1_000)
    node = Node(log_initial_task_delay_ms="3600000")
    node.start()
    log = node.create("t", segment_bytes=600)
    checkpoint = "/d1/recovery-point-offset-checkpoint"

    def on_disk() -> bytes:
        return node.files.read_bytes(checkpoint) if node.files.exists(checkpoint) else b""

    node.append(log, b"x" * 500)
    node.append(log, b"x" * 500)
    node.world.scheduler.advance(10_000)
    assert b"t 0" not in on_disk(), "one closed segment is small"
    node.append(log, b"x" * 500)
    node.append(log, b"x" * 500)
    node.world.scheduler.advance(4_999)
    assert b"t 0" not in on_disk(), "others may follow"
    node.world.scheduler.advance(1)
    recovery_point = log.recovery_point
    assert recovery_point >= 3
    assert b"t 0 %d" % recovery_point in on_disk()
    # It begins again.
    node.append(log, b"x" * 500)
    node.world.scheduler.advance(10_000)
    assert b"t 0 %d" % recovery_point in on_disk()
    node.stop()
    assert node.logs.pool.on_closed is None


class TestCheckpointsInSlices:
    """The offsets of a periodic checkpoint are read over several turns, and never replace newer ones."""

    FILE = "/d1/replication-offset-checkpoint"

    @pytest.fixture
    def node(self, monkeypatch: pytest.MonkeyPatch) -> Node:
        monkeypatch.setattr(maintenance, "_SLICE_LOGS_READ", 2)
        node = Node(replica_high_watermark_checkpoint_interval_ms="5000")
        node.start()
        for number in range(5):
            log = node.create(f"t{number}")
            for _ in range(4):
                node.append(log, b"x")
            log.flush()
            log.update_high_watermark(4)
        node.world.scheduler.run()
        return node

    def on_disk(self, node: Node) -> list[str]:
        return sorted(node.files.read_bytes(self.FILE).decode().split("\n")[2:-1])

    def test_a_few_logs_are_read_in_a_turn(self, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
        read: list[str] = []

        def offset_of(log: Any) -> int:
            read.append(log.topic_partition.topic)
            return int(log.high_watermark)

        monkeypatch.setitem(maintenance._OFFSETS, REPLICATION_OFFSET_FILE, offset_of)
        node.logs.maintenance._checkpoint_in_slices(REPLICATION_OFFSET_FILE)
        counts = [len(read)]
        while len(read) < 5:
            node.world.scheduler.run_turn()
            counts.append(len(read))
        assert counts == [2, 4, 5]
        node.world.scheduler.run()
        assert self.on_disk(node) == [f"t{number} 0 4" for number in range(5)]

    def test_a_truncation_meanwhile_is_not_undone(self, node: Node) -> None:
        node.logs.maintenance._checkpoint_in_slices(REPLICATION_OFFSET_FILE)
        truncated = node.logs.get(TopicPartition("t0", 0))
        assert truncated is not None
        truncated.truncate_to(1)
        node.world.scheduler.run()
        assert self.on_disk(node)[0] == "t0 0 1"

    def test_the_interval_writes_all_logs(self, node: Node) -> None:
        node.world.scheduler.advance(5_000)
        assert self.on_disk(node) == [f"t{number} 0 4" for number in range(5)]

    def test_a_stop_ends_a_reading(self, node: Node) -> None:
        node.logs.maintenance._checkpoint_in_slices(REPLICATION_OFFSET_FILE)
        first = node.logs.get(TopicPartition("t0", 0))
        assert first is not None
        node.append(first, b"x")
        first.update_high_watermark(5)
        node.stop()
        node.world.scheduler.run()
        assert self.on_disk(node)[0] == "t0 0 5"
