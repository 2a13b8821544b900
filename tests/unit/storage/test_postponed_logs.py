"""Logs that a start cannot open for lack of descriptors, memory or room are opened while the node runs."""

from __future__ import annotations

import errno

import pytest

from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition, Uuid
from ottla.storage.manager import LogManager
from ottla.storage.postponed_logs import LOGS_AT_ONCE
from tests.support.files import MemoryFiles
from tests.unit.storage.helpers import log_config, values_of
from tests.unit.storage.logs_node import TOPIC_ID, Node

PARTITION = TopicPartition("t", 0)


class Shortage:
    """Files without descriptors for the logs of `topic` until `is_over`."""

    def __init__(self, files: MemoryFiles, monkeypatch: pytest.MonkeyPatch, *, code: int = errno.EMFILE) -> None:
        self.is_over = False
        self.error = code
        self.attempts = 0
        self._check = files.check
        monkeypatch.setattr(files, "check", self.check)

    def check(self, operation: str, path: str) -> None:
        if not self.is_over and operation in ("open", "read") and "/t-" in path:
            self.attempts += 1
            raise OSError(self.error, "not now", path)
        self._check(operation, path)


def left_behind(*, was_clean: bool, partitions: int = 1) -> Node:
    """A node that has stopped, with logs of three records of which the first two are deleted."""
    node = Node()
    node.start()
    for index in range(partitions):
        log = node.create("t", index)
        for number in range(3):
            node.append(log, b"%d" % number)
        log.update_high_watermark(3)
        log.advance_log_start_offset(2)
    if was_clean:
        node.stop()
        # The directory has changed since the clean shutdown, so the log is opened from its files.
        for index in range(partitions):
            node.files.write_atomically(f"/d1/t-{index}/foreign", b"")
    else:
        node.logs.checkpoint().result()
        node.kill()
    return node


def opened_late(logs: LogManager) -> list[tuple[TopicPartition, Uuid]]:
    opened: list[tuple[TopicPartition, Uuid]] = []
    logs.on_opened_late.append(lambda topic_partition, topic_id: opened.append((topic_partition, topic_id)))
    return opened


@pytest.mark.parametrize("was_clean", [True, False])
@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC])
def test_a_log_is_opened_when_the_shortage_is_over(was_clean: bool, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    node = left_behind(was_clean=was_clean)
    shortage = Shortage(node.files, monkeypatch, code=code)
    logs = node.start()
    opened = opened_late(logs)
    node.world.scheduler.advance(5_000)
    assert logs.is_refused(PARTITION)
    assert not logs.directories[0].is_offline
    shortage.is_over = True
    node.world.scheduler.advance(1_000)
    assert opened == [(PARTITION, TOPIC_ID)]
    log = logs.get(PARTITION)
    assert log is not None
    assert not logs.is_refused(PARTITION)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (2, 3, 3)
    node.append(log, b"new")
    assert values_of(log) == [b"2", b"new"]


def test_it_is_tried_every_second_with_one_log(monkeypatch: pytest.MonkeyPatch) -> None:
    node = left_behind(was_clean=True, partitions=40)
    shortage = Shortage(node.files, monkeypatch)
    node.start()
    node.world.scheduler.advance(999)
    before = shortage.attempts
    node.world.scheduler.advance(1)
    attempts_per_second = shortage.attempts - before
    node.world.scheduler.advance(10_000)
    assert 0 < attempts_per_second <= 2
    assert shortage.attempts - before == 11 * attempts_per_second


def test_many_logs_are_taken_over_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    node = left_behind(was_clean=False, partitions=40)
    shortage = Shortage(node.files, monkeypatch)
    logs = node.start()
    turns: list[int] = []

    def end_turn() -> None:
        turns.append(0)

    def count(*_: object) -> None:
        turns[-1] += 1
        if turns[-1] == 1:
            node.world.scheduler.call_soon(end_turn)

    logs.on_opened_late.append(count)
    end_turn()
    shortage.is_over = True
    node.world.scheduler.advance(1_000)
    assert turns == [LOGS_AT_ONCE, LOGS_AT_ONCE, 40 - 2 * LOGS_AT_ONCE, 0]


def test_the_checkpoints_are_those_of_the_open_log_again(monkeypatch: pytest.MonkeyPatch) -> None:
    node = left_behind(was_clean=False)
    shortage = Shortage(node.files, monkeypatch)
    logs = node.start()
    shortage.is_over = True
    node.world.scheduler.advance(1_000)
    log = logs.get(PARTITION)
    assert log is not None
    node.append(log, b"3", b"4")
    log.update_high_watermark(5)
    # The log was damaged while the node ran: its offsets at the start are outdated.
    node.files.fail_next("list_directory", OSError(errno.EIO, "input/output error"), path_contains="/d1/t-0")
    log.files.failures.fail_log("a file is short")
    logs.checkpoint().result()
    assert logs.directories[0].read_checkpoint("recovery-point-offset-checkpoint") == {PARTITION: 5}


@pytest.mark.parametrize("is_over", [True, False])
def test_the_next_shutdown_is_clean_if_no_log_is_left(is_over: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    node = left_behind(was_clean=False)
    shortage = Shortage(node.files, monkeypatch)
    node.start()
    shortage.is_over = is_over
    node.world.scheduler.advance(1_000)
    node.stop()
    shortage.is_over = True
    logs = node.start()
    assert logs.had_clean_shutdown is is_over
    log = logs.get(PARTITION)
    assert log is not None
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (2, 3, 3)


def test_a_topic_that_is_deleted_meanwhile_is_deleted_when_its_log_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    node = left_behind(was_clean=False)
    node.files.fail_next("open", OSError(errno.EMFILE, "not now"), path_contains="/d1/t-0/0")
    node.files.fail_next("open", OSError(errno.EMFILE, "not now"), path_contains="/d1/t-0/0")
    logs = node.start()
    opened = opened_late(logs)
    assert logs.topic_id_of(PARTITION) == TOPIC_ID
    logs.delete(PARTITION)
    node.world.scheduler.advance(1_000)
    assert (opened, logs.get(PARTITION), logs.is_refused(PARTITION)) == ([], None, False)
    node.world.scheduler.advance(3_600_000)
    assert not [name for name in node.files.list_directory("/d1") if name.startswith("t-")]


def test_a_new_topic_of_the_name_does_not_wait_for_the_shortage(monkeypatch: pytest.MonkeyPatch) -> None:
    node = left_behind(was_clean=False)
    node.files.fail_next("open", OSError(errno.EMFILE, "not now"), path_contains="/d1/t-0/0")
    node.files.fail_next("open", OSError(errno.EMFILE, "not now"), path_contains="/d1/t-0/0")
    logs = node.start()
    opened = opened_late(logs)
    new_id = Uuid(b"fedcba9876543210")
    with pytest.raises(KafkaError, match="checkpoint"):
        logs.get_or_create(PARTITION, new_id, log_config())
    node.world.scheduler.run()
    log = logs.get_or_create(PARTITION, new_id, log_config())
    node.append(log, b"new")
    node.world.scheduler.advance(10_000)
    assert logs.get(PARTITION) is log
    assert opened == []
    assert values_of(log) == [b"new"]


@pytest.mark.parametrize("code", [errno.EACCES, errno.EIO])
def test_another_error_later_is_what_it_would_have_been_at_the_start(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = left_behind(was_clean=False)
    shortage = Shortage(node.files, monkeypatch)
    logs = node.start()
    shortage.error = code
    node.world.scheduler.advance(1_000)
    assert logs.directories[0].is_offline is (code == errno.EIO)
    before = shortage.attempts
    node.world.scheduler.advance(10_000)
    assert shortage.attempts == before
    assert logs.is_refused(PARTITION)


def test_nothing_is_opened_after_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    node = left_behind(was_clean=True)
    shortage = Shortage(node.files, monkeypatch)
    logs = node.start()
    node.stop()
    shortage.is_over = True
    node.world.scheduler.advance(10_000)
    assert logs.get(PARTITION) is None
