"""A directory that fails in the middle of a shutdown."""

from __future__ import annotations

import errno

from ottla.model.ids import TopicPartition
from tests.unit.storage.helpers import values_of
from tests.unit.storage.logs_node import Node


def test_a_directory_that_fails_while_its_logs_are_closed_leaves_the_others_clean() -> None:
    node = Node("/d1", "/d2")
    node.start()
    for topic in ("a", "b", "c", "d"):
        node.append(node.create(topic), b"record")
    assert [directory.partition_count for directory in node.logs.directories] == [2, 2]
    node.files.fail_next("write_atomically", OSError(errno.EIO, "input/output error"), path_contains="/d1/a-0/")
    node.stop()
    assert node.files.exists("/d2/.kafka_cleanshutdown")
    assert not node.files.exists("/d1/.kafka_cleanshutdown")
    node.kill()
    node.start()
    for topic in ("a", "b", "c", "d"):
        log = node.logs.get(TopicPartition(topic, 0))
        assert log is not None
        log.update_high_watermark(log.log_end_offset)
        assert values_of(log) == [b"record"]
