"""Moves between log directories that Apache Kafka 4.3 refuses (`ReplicaManager.alterReplicaLogDirs`)."""

from __future__ import annotations

from contextlib import suppress

import pytest

from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.model.slices import finish
from tests.unit.storage.helpers import values_of
from tests.unit.storage.logs_node import Node
from tests.unit.storage.test_moves_and_power import TwoDisks


def directory_of(node: Node, topic: str) -> str:
    directory = node.logs.directory_of(TopicPartition(topic, 0))
    assert directory is not None
    return directory.path


def refusal_of_a_move(node: Node, topic: str, path: str) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        node.logs.move(TopicPartition(topic, 0), path)
    return refused.value.code


@pytest.mark.parametrize("cordoned", ["/d2", "*"])
def test_a_cordoned_directory_takes_no_moved_partition(cordoned: str) -> None:
    node = Node("/d1", "/d2")
    node.start()
    node.append(node.create("t"), b"value")
    target = "/d2" if directory_of(node, "t") == "/d1" else "/d1"
    node.logs.config = node.logs.config.with_dynamic(
        dynamic={"cordoned.log.dirs": target if cordoned != "*" else "*"}, dynamic_defaults={}
    )
    assert refusal_of_a_move(node, "t", target) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    node.world.scheduler.run()
    described = finish(node.logs.describe(per_slice=1))
    assert not any(replica.is_future for directory in described for replica in directory.replicas)
    assert directory_of(node, "t") != target


def test_a_cordoned_directory_is_not_preferred_for_a_later_replica() -> None:
    node = Node("/d1", "/d2", cordoned_log_dirs="/d2")
    node.start()
    assert refusal_of_a_move(node, "t", "/d2") == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    node.create("t")
    assert directory_of(node, "t") == "/d1"


def test_a_topic_whose_copy_would_not_keep_its_name_is_not_moved() -> None:
    """A restart finds the partition of a copy by the name of its directory."""
    node = Node("/d1", "/d2")
    node.start()
    for length, may_move in ((213, True), (214, False), (249, False)):
        topic = "x" * length
        node.append(node.create(topic), b"value")
        source = directory_of(node, topic)
        target = "/d2" if source == "/d1" else "/d1"
        if may_move:
            node.logs.move(TopicPartition(topic, 0), target)
            node.world.scheduler.run()
            assert directory_of(node, topic) == target
        else:
            assert refusal_of_a_move(node, topic, target) == ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("length", [10, 213, 214, 249])
def test_a_crash_within_a_move_loses_no_record(length: int) -> None:
    """The original has its name for deletion already, and the copy still has the name of a future replica."""
    files, topic = TwoDisks(), "x" * length
    node = Node("/d1", "/d2", files=files)
    node.start()
    log = node.create(topic)
    node.append(log, b"acknowledged")
    log.flush().result()
    # The only file operations after this are those of the move.
    with suppress(KafkaError):
        node.logs.move(TopicPartition(topic, 0), "/d2" if directory_of(node, topic) == "/d1" else "/d1")
    renamed = files.rename

    def crash_between_the_renames(source: str, target: str) -> None:
        if source.endswith("-future"):
            raise KeyboardInterrupt
        renamed(source, target)

    files.rename = crash_between_the_renames  # type: ignore[method-assign]
    with suppress(KeyboardInterrupt):
        node.world.scheduler.run()
    files.rename = renamed  # type: ignore[method-assign]
    node.kill()
    node.start()
    restarted = node.logs.get(TopicPartition(topic, 0))
    assert restarted is not None, f"{[files.list_directory(path) for path in node.paths]}"
    restarted.update_high_watermark(restarted.log_end_offset)
    assert values_of(restarted) == [b"acknowledged"]
