"""A copy whose move replaced an earlier one, while the disk of the original is away."""

from __future__ import annotations

from ottla.model.ids import TopicPartition
from tests.unit.storage.helpers import offsets_of
from tests.unit.storage.logs_node import Node

PARTITION = TopicPartition("t", 0)


def test_the_rest_of_a_cancelled_move_does_not_make_an_incomplete_copy_the_log() -> None:
    node = Node("/d1", "/d2", "/d3")
    node.start()
    log = node.create("t")
    for _ in range(5):
        node.append(log, b"record")
    log.flush().result()
    node.logs.move(PARTITION, "/d2")
    node.world.scheduler.run_turn()
    # The administrator chooses another directory.
    node.logs.move(PARTITION, "/d3")
    assert [name for name in node.files.list_directory("/d2") if name.endswith("-delete")]
    assert [name for name in node.files.list_directory("/d3") if name.endswith("-future")]
    node.kill()
    node.paths = ("/d2", "/d3")
    assert node.start().get(PARTITION) is None
    node.kill()
    node.paths = ("/d1", "/d2", "/d3")
    log_after = node.start().get(PARTITION)
    assert log_after is not None
    assert offsets_of(log_after) == list(range(5))
