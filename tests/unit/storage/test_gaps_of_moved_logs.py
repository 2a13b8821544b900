"""A log with a gap of lost records moves to another directory, and the process is killed."""

from __future__ import annotations

import pytest

from ottla.model.ids import TopicPartition
from tests.unit.storage.helpers import offsets_of
from tests.unit.storage.logs_node import Node

PARTITION = TopicPartition("t", 0)


@pytest.mark.parametrize("is_append_after_move", [False, True])
def test_a_crash_after_a_move_keeps_the_records_behind_a_gap(is_append_after_move: bool) -> None:
    """Everything is flushed and in the checkpoints, and the topic is not compacted."""
    node = Node("/d1", "/d2")
    node.start()
    log = node.create("t")
    for _ in range(5):
        node.append(log, b"old")
    log.update_high_watermark(5)
    segment = log.segments.active
    # Another program has cut the file.
    del node.files.nodes[segment.path].data[segment.size // 5 * 2 :]
    log.files.find_damage(0)
    node.world.scheduler.run()
    log = node.log_of()
    log.resolve_doubt()
    if not is_append_after_move:
        node.append(log, b"acknowledged")
    node.logs.move(PARTITION, "/d2")
    node.world.scheduler.run()
    assert log.directory == "/d2/t-0"
    if is_append_after_move:
        node.append(log, b"acknowledged")
    log.flush().result()
    if not is_append_after_move:
        node.logs.checkpoint().result()
    node.kill()
    node.start()
    assert offsets_of(node.log_of()) == [0, 1, 5]
