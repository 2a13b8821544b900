"""Directories of deleted partitions go when their time has come, and nothing waits for them."""

from __future__ import annotations

import errno
from collections import deque

from ottla.model.deferred import Deferred
from ottla.model.ids import TopicPartition
from tests.unit.storage.test_manager import Node


def test_a_large_topics_directories_are_removed_one_after_another() -> None:
    """Work that a caller waits for, such as a flush, does not wait behind all of them."""
    node = Node(log_segment_delete_delay_ms="5000")
    node.start()
    for index in range(5):
        node.create("t", index)
    for index in range(5):
        node.logs.delete(TopicPartition("t", index))
    workers = node.world.workers
    workers.immediate = False
    node.world.scheduler.advance(5000)

    def left() -> int:
        return sum(name.endswith("-delete") for name in node.files.list_directory("/d1"))

    def removals() -> list[Deferred[None]]:
        return [task[2] for task in workers.tasks if str(task[1][:1]).endswith("-delete',)")]

    assert (left(), len(removals())) == (5, 1)
    # A directory that cannot be removed for lack of descriptors does not fail the disk.
    (refused,) = removals()
    workers.tasks = deque(task for task in workers.tasks if task[2] is not refused)
    refused.fail(OSError(errno.EMFILE, "too many open files"))
    assert (left(), len(removals())) == (5, 1)
    workers.run_all()
    assert left() == 1
    assert not node.logs.directories[0].is_offline
    workers.immediate = True
    node.stop()
