"""Partitions without records: a directory without a log file."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.model.ids import TopicPartition
from tests.unit.storage.helpers import values_of
from tests.unit.storage.logs_node import TOPIC_ID, Node


def log_files(node: Node) -> list[str]:
    return [name for name in node.files.list_directory("/d1/t-0") if name.endswith(".log")]


@pytest.mark.parametrize("ends", [Node.stop, Node.kill])
def test_the_first_record_creates_the_first_log_file(ends: Callable[[Node], None]) -> None:
    node = Node()
    node.start()
    assert node.create("t").log_end_offset == 0
    assert log_files(node) == []
    ends(node)
    log = node.start().get(TopicPartition("t", 0))
    assert log is not None
    assert (log.log_start_offset, log.log_end_offset, log_files(node)) == (0, 0, [])
    assert node.logs.topic_id_of(TopicPartition("t", 0)) == TOPIC_ID
    assert values_of(log) == []
    node.append(log, b"a")
    assert log_files(node) == ["00000000000000000000.log"]
    ends(node)
    log = node.start().get(TopicPartition("t", 0))
    assert log is not None
    assert values_of(log) == [b"a"]


def test_a_partition_that_had_records_is_not_empty_after_a_crash_although_its_files_are_gone() -> None:
    """The checkpoint has its recovery point, so no offset is given twice."""
    node = Node()
    node.start()
    node.append(node.create("t"), b"a", b"b")
    node.stop()
    node.files.remove("/d1/.kafka_cleanshutdown")
    for name in node.files.list_directory("/d1/t-0"):
        if name != "partition.metadata" and not name.startswith("leader-epoch"):
            node.files.remove(f"/d1/t-0/{name}")
    log = node.start().get(TopicPartition("t", 0))
    assert log is not None
    assert log.log_end_offset == 2
