"""The checkpoint files have the offsets of a log that is gone, and a new topic has its name."""

from __future__ import annotations

import errno

import pytest

from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition, Uuid
from ottla.storage.errors import DISK_RETRY_SECONDS
from ottla.storage.log import PartitionLog
from tests.unit.storage.helpers import log_config, values_of
from tests.unit.storage.logs_node import Node

PARTITION = TopicPartition("t", 0)
NEW_ID = Uuid(b"fedcba9876543210")


def node_with_offsets_in_checkpoints() -> Node:
    node = Node()
    node.start()
    log = node.create("t")
    for number in range(3):
        node.append(log, b"%d" % number)
    log.update_high_watermark(3)
    log.advance_log_start_offset(2)
    log.flush().result()
    node.logs.checkpoint().result()
    return node


def create_again(node: Node) -> PartitionLog:
    """The log of the new topic, created when the name is free, as replicas do."""
    free = node.logs.maintenance.prompt_checkpoints.leaving(PARTITION)
    while free is not None and not free.done:
        node.world.scheduler.advance(round(DISK_RETRY_SECONDS * 1000))
    return node.logs.get_or_create(PARTITION, NEW_ID, log_config())


def expect_records_after_crash(node: Node, log: PartitionLog) -> None:
    node.append(log, b"acknowledged")
    node.append(log, b"too")
    node.kill()
    reopened = node.start().get(PARTITION)
    assert reopened is not None
    assert (reopened.log_start_offset, reopened.log_end_offset, reopened.doubtful_from) == (0, 2, None)
    assert values_of(reopened) == [b"acknowledged", b"too"]


@pytest.mark.parametrize("is_full", [False, True])
def test_a_refused_log_of_a_former_topic(is_full: bool) -> None:
    node = node_with_offsets_in_checkpoints()
    node.kill()
    node.files.fail_next("open", OSError(errno.EACCES, "permission denied"), path_contains="/d1/t-0/0")
    logs = node.start()
    assert logs.is_refused(PARTITION)
    if is_full:
        full = OSError(errno.ENOSPC, "no space left on device")
        node.files.fail_next("write_atomically", full, path_contains="/recovery-point-offset-checkpoint")
    with pytest.raises(KafkaError):
        logs.get_or_create(PARTITION, NEW_ID, log_config())
    assert not logs.is_refused(PARTITION)
    expect_records_after_crash(node, create_again(node))


def test_a_crash_after_the_deletion_of_a_topic() -> None:
    node = node_with_offsets_in_checkpoints()
    node.logs.delete(PARTITION)
    node.kill()
    node.start()
    expect_records_after_crash(node, create_again(node))


@pytest.mark.parametrize("is_clean", [False, True])
def test_a_directory_that_the_operator_has_removed(is_clean: bool) -> None:
    node = node_with_offsets_in_checkpoints()
    if is_clean:
        node.stop()
    else:
        node.kill()
    node.files.remove_tree("/d1/t-0")
    node.start()
    expect_records_after_crash(node, create_again(node))


def test_a_recovered_log_of_a_deleted_topic_that_cannot_be_renamed() -> None:
    """It stays refused, its files are closed, and the next topic of that name tries the rename again."""
    node = node_with_offsets_in_checkpoints()
    log = node.logs.get(PARTITION)
    assert log is not None
    segment = log.segments.active
    workers = node.world.workers
    workers.immediate = False
    # Another program has cut the file.
    del node.files.nodes[segment.path].data[segment.size // 3 :]
    log.files.find_damage(0)
    node.logs.delete(PARTITION)
    denied = OSError(errno.EACCES, "permission denied")
    node.files.fail_next("rename", denied, path_contains="/d1/t-0")
    workers.immediate = True
    workers.run_all()
    node.world.scheduler.run()
    assert node.logs.is_refused(PARTITION)
    assert len(node.logs.pool) == 0
    with pytest.raises(KafkaError):
        node.logs.get_or_create(PARTITION, NEW_ID, log_config())
    assert not node.logs.is_refused(PARTITION)
    expect_records_after_crash(node, create_again(node))
