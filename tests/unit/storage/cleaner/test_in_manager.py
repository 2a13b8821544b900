"""The cleaner in the log manager, which starts the cleaner and notifies it about changes of logs."""

from __future__ import annotations

import errno

import pytest

from ottla.model.config import BrokerConfig
from ottla.model.ids import TopicPartition, Uuid
from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.storage.log import PartitionLog
from ottla.storage.manager import LogManager
from tests.support.files import MemoryFiles
from tests.support.virtual_world import VirtualWorld
from tests.unit.storage.cleaner.cleaned_logs import content_of
from tests.unit.storage.helpers import log_config

PARTITION = TopicPartition("t", 0)


class Node:
    def __init__(self, **properties: str) -> None:
        self.files = MemoryFiles()
        self.world = VirtualWorld(immediate_workers=True, files=self.files)
        self.properties = {"log.dirs": "/d1,/d2"} | {name.replace("_", "."): text for name, text in properties.items()}
        self.start()

    def start(self) -> None:
        self.logs = LogManager(self.world.world, BrokerConfig.embedded(self.properties), cluster_id="c", node_id=1)
        self.logs.open().result()

    def create(self) -> PartitionLog:
        return self.logs.get_or_create(
            PARTITION, Uuid(b"0123456789abcdef"), log_config(cleanup_policy="compact", min_cleanable_dirty_ratio="0")
        )

    def fill(self, log: PartitionLog) -> None:
        for number in range(3):
            batch = build_batch([Record(key=b"k", value=b"%d" % number, timestamp=1)])
            log.append_built(batch, leader_epoch=0, now_ms=self.world.clock.now_ms())
        log.update_high_watermark(log.log_end_offset)
        log.roll()
        self.world.scheduler.run()

    def checkpoint(self, directory: str) -> str:
        path = f"{directory}/cleaner-offset-checkpoint"
        return self.files.read_bytes(path).decode() if self.files.exists(path) else ""


def test_compacted_topics_are_cleaned_while_the_node_runs() -> None:
    node = Node()
    log = node.create()
    node.fill(log)
    node.world.scheduler.advance(16_000)
    assert content_of(log) == [(2, "k", "2")]
    assert node.checkpoint("/d1") == "0\n1\nt 0 3\n"
    node.logs.close().result()
    node.start()
    reopened = node.logs.get(PARTITION)
    assert reopened is not None
    assert content_of(reopened) == [(2, "k", "2")]
    assert node.logs.cleaner.cleaned_offset(reopened) == 3


def test_crash_after_the_policy_changed_to_delete_cuts_nothing() -> None:
    node = Node()
    log = node.create()
    node.fill(log)
    node.fill(log)
    node.world.scheduler.advance(16_000)
    assert content_of(log) == [(5, "k", "2")]
    node.files.locks.clear()
    node.start()
    reopened = node.logs.get(PARTITION)
    assert reopened is not None
    assert not reopened.config.compacts
    assert content_of(reopened) == [(5, "k", "2")]


def test_stopped_node_cleans_no_more() -> None:
    node = Node()
    node.fill(node.create())
    node.logs.close().result()
    node.world.scheduler.advance(60_000)
    assert node.checkpoint("/d1") == ""


def test_deleted_topic_leaves_the_checkpoint() -> None:
    node = Node()
    node.fill(node.create())
    node.world.scheduler.advance(16_000)
    node.logs.delete(PARTITION)
    assert node.checkpoint("/d1") == "0\n0\n"


def test_moved_partition_takes_its_checkpoint_along() -> None:
    node = Node()
    log = node.create()
    node.fill(log)
    node.world.scheduler.advance(16_000)
    node.logs.move(PARTITION, "/d2")
    node.world.scheduler.advance(1000)
    assert node.checkpoint("/d1") == "0\n0\n"
    assert node.checkpoint("/d2") == "0\n1\nt 0 3\n"
    assert content_of(log) == [(2, "k", "2")]
    node.fill(log)
    node.world.scheduler.advance(16_000)
    assert content_of(log) == [(5, "k", "2")]


def test_settings_change_while_it_runs() -> None:
    node = Node(log_cleaner_backoff_ms="600000")
    log = node.create()
    node.fill(log)
    node.logs.config = BrokerConfig.embedded(node.properties | {"log.cleaner.threads": "2"})
    assert content_of(log) == [(2, "k", "2")]


def test_cleaner_can_be_switched_off() -> None:
    node = Node(log_cleaner_enable="false")
    log = node.create()
    node.fill(log)
    node.world.scheduler.advance(60_000)
    assert len(content_of(log)) == 3


NAMES = (
    ".index.cleaned",
    ".log.cleaned",
    "00.log",
    "00.index",
    "03.log",
    "03.snapshot",
    "00.log.swap",
    "00.index.swap",
)


@pytest.mark.parametrize("name", NAMES)
def test_a_full_disk_in_the_middle_of_a_swap_costs_no_directory_and_no_record(name: str) -> None:
    node = Node()
    log = node.create()
    for _ in range(3):
        node.fill(log)
    node.files.fail_next("rename", OSError(errno.ENOSPC, "no space left on device"), path_contains=name)
    node.world.scheduler.advance(16_000)
    assert not any(directory.is_offline for directory in node.logs.directories)
    reopened = node.create()
    assert reopened is not log
    assert content_of(reopened)[-1] == (8, "k", "2")
    # The cleaner goes on, too.
    reopened.update_high_watermark(9)
    node.world.scheduler.advance(60_000)
    assert not node.logs.cleaner.uncleanable
    assert content_of(reopened) == [(8, "k", "2")]
