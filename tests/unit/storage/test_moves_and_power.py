"""Power cuts around the moment at which a copy takes the place of the original."""

from __future__ import annotations

from ottla.model.ids import TopicPartition
from tests.support.files import MemoryFiles
from tests.unit.storage.helpers import values_of
from tests.unit.storage.logs_node import Node

PARTITION = TopicPartition("t", 0)


class TwoDisks(MemoryFiles):
    """Every directory of the root is a disk of its own: a new name is durable once its directory was synced."""

    def __init__(self) -> None:
        super().__init__()
        self.unsynced_renames: list[tuple[str, str]] = []

    def rename(self, source: str, target: str) -> None:
        is_directory = source in self.directories
        super().rename(source, target)
        if is_directory:
            self.unsynced_renames.append((source, target))

    def sync_directory(self, path: str) -> None:
        super().sync_directory(path)
        self.unsynced_renames = [names for names in self.unsynced_renames if names[1].rpartition("/")[0] != path]

    def cut_power(self) -> None:
        for source, target in reversed(self.unsynced_renames):
            if target in self.directories:
                super().rename(target, source)
        self.unsynced_renames.clear()
        self.lose_unsynced()


def test_a_power_cut_after_a_move_does_not_leave_two_copies() -> None:
    files = TwoDisks()
    node = Node("/d1", "/d2", files=files)
    node.start()
    log = node.create("t")
    node.append(log, b"old")
    log.flush().result()
    node.logs.move(PARTITION, "/d2")
    node.world.scheduler.run()
    assert log.directory == "/d2/t-0"
    node.append(log, b"new")
    log.flush().result()
    files.cut_power()
    node.kill()
    node.start()
    moved = node.logs.get(PARTITION)
    assert moved is not None
    moved.update_high_watermark(moved.log_end_offset)
    assert values_of(moved) == [b"old", b"new"]


def test_the_original_is_not_removed_before_the_name_of_the_copy_is_durable() -> None:
    files = TwoDisks()
    node = Node("/d1", "/d2", files=files, log_segment_delete_delay_ms="0")
    node.start()
    log = node.create("t")
    node.append(log, b"old")
    log.flush().result()
    node.logs.move(PARTITION, "/d2")
    node.world.scheduler.advance(1000)
    assert not [name for name in files.list_directory("/d1") if name.endswith("-delete")]
    files.cut_power()
    node.kill()
    node.start()
    moved = node.logs.get(PARTITION)
    assert moved is not None
    moved.update_high_watermark(moved.log_end_offset)
    assert values_of(moved) == [b"old"]
