"""A log that lost records while the node ran, and a crash soon after it was recovered."""

from __future__ import annotations

import errno

import pytest

from ottla.model.ids import TopicPartition
from ottla.storage.errors import DISK_RETRY_SECONDS
from ottla.storage.log import PartitionLog
from tests.unit.storage.helpers import values_of
from tests.unit.storage.logs_node import Node

PARTITION = TopicPartition("t", 0)


def node_with_records() -> tuple[Node, PartitionLog]:
    """A node, and its log of three batches of one record."""
    node = Node()
    node.start()
    log = node.create("t")
    for value in (b"a", b"b", b"c"):
        node.append(log, value)
    return node, node.log_of()


def cut(node: Node, log: PartitionLog, *, batches: int = 1) -> None:
    """Leaves so many of the three batches in the file, as another program does."""
    segment = log.segments.active
    del node.files.nodes[segment.path].data[segment.size // 3 * batches :]


def recover(node: Node, log: PartitionLog) -> None:
    log.files.find_damage(0)
    node.world.scheduler.run()


def test_a_crash_after_a_recovery_keeps_the_records_behind_the_lost_ones() -> None:
    """The only replica leads on behind the gap. The process is killed before the next periodic checkpoint."""
    node, log = node_with_records()
    cut(node, log)
    recover(node, log)
    log = node.log_of()
    assert log.log_end_offset == 3
    log.resolve_doubt()
    node.append(log, b"acknowledged")
    node.kill()
    node.start()
    assert values_of(node.log_of()) == [b"a", b"acknowledged"]


def test_a_log_is_not_in_service_before_its_new_recovery_point_is_written() -> None:
    """The disk is full when the checkpoint is written, and has room again before the process is killed."""
    node, log = node_with_records()
    node.logs.checkpoint().result()
    cut(node, log)
    full = OSError(errno.ENOSPC, "no space left on device")
    node.files.fail_next("write_atomically", full, path_contains="/recovery-point-offset-checkpoint")
    recover(node, log)
    assert node.logs.get(PARTITION) is None
    node.world.scheduler.advance(round(DISK_RETRY_SECONDS * 1000))
    log = node.log_of()
    log.resolve_doubt()
    node.append(log, b"acknowledged")
    node.kill()
    node.start()
    assert values_of(node.log_of()) == [b"a", b"acknowledged"]


def test_a_flush_after_a_recovery_makes_the_earlier_records_durable() -> None:
    """The recovery point moves past them, so recovery after a power cut does not check them."""
    node, log = node_with_records()
    cut(node, log, batches=2)
    recover(node, log)
    log = node.log_of()
    log.resolve_doubt()
    node.append(log, b"acknowledged")
    log.flush().result()
    node.logs.checkpoint().result()
    node.files.lose_unsynced()
    node.kill()
    node.start()
    assert values_of(node.log_of()) == [b"a", b"b", b"acknowledged"]


def test_a_recovery_that_ends_after_the_shutdown_submits_no_more_work(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The workers complete it when they are closed, and take no more tasks then."""
    node, log = node_with_records()
    cut(node, log)
    workers = node.world.workers
    workers.immediate = False
    recover(node, log)
    (recovery,) = workers.tasks
    workers.tasks.clear()
    workers.immediate = True
    node.stop()
    submitted: list[object] = []
    monkeypatch.setattr(workers, "submit", lambda *task: submitted.append(task))
    workers.tasks.append(recovery)
    workers.run_all()
    assert submitted == []
    assert "could not be recovered" not in caplog.text


def test_logs_that_are_recovered_in_one_turn_share_a_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another program has cut the files of many logs. A checkpoint contains all logs, so it is not written for each."""
    node = Node()
    node.start()
    logs = [node.create("t", index) for index in range(20)]
    for log in logs:
        for value in (b"a", b"b", b"c"):
            node.append(log, value)
        cut(node, log)
    check = node.files.check
    written: list[str] = []

    def count(operation: str, path: str) -> None:
        if operation == "write_atomically" and path.endswith("/recovery-point-offset-checkpoint"):
            written.append(path)
        check(operation, path)

    monkeypatch.setattr(node.files, "check", count)
    for log in logs:
        log.files.find_damage(0)
    node.world.scheduler.run()
    assert [log.log_end_offset for log in node.logs] == [3] * 20
    assert len(written) == 1
