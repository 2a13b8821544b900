"""What an unlucky moment leaves in a log directory, and what the next start makes of it."""

from __future__ import annotations

import errno

import pytest

from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.records.build import build_batch
from ottla.records.record import Record
from tests.unit.storage.helpers import values_of
from tests.unit.storage.test_manager import Node


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EMFILE, errno.EIO])
def test_a_log_that_could_not_be_begun_may_begin_in_another_directory(code: int) -> None:
    node = Node("/d1", "/d2")
    node.start()
    node.files.fail_next("write_atomically", OSError(code, "no"), path_contains="/d1/t-0")
    with pytest.raises(KafkaError) as caught:
        node.create("t")
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert not node.files.is_directory("/d1/t-0")
    node.create("u")
    log = node.create("t")
    node.append(log, b"a")
    node.kill()
    value = node.start().get(TopicPartition("t", 0))
    assert value is not None
    assert value.directory == log.directory
    assert values_of(value) == [b"a"]


@pytest.mark.parametrize("broken", ["/d1", "/d2"])
def test_what_a_broken_disk_kept_of_a_log_that_was_begun_elsewhere_is_removed(broken: str) -> None:
    node = Node("/d1", "/d2", log_segment_delete_delay_ms="1000")
    node.start()
    if broken == "/d1":
        node.create("u")
    log = node.create("t")
    node.append(log, b"a")
    node.stop()
    node.files.make_directories(f"{broken}/t-0")
    node.files.write_atomically(f"{broken}/t-0/partition.metadata", b"half")
    value = node.start().get(TopicPartition("t", 0))
    assert value is not None
    assert value.directory == log.directory
    assert values_of(value) == [b"a"]
    node.world.scheduler.advance(1000)
    assert not node.files.is_directory(f"{broken}/t-0")


def test_where_the_cleaner_has_been_cannot_be_read_so_that_gaps_are_no_damage() -> None:
    node = Node()
    node.start()
    log = node.create("t")
    for offset in (0, 7):
        built = build_batch([Record(key=None, value=b"a", timestamp=1000)], base_offset=offset, leader_epoch=0)
        log.append_as_follower(built)
    node.files.write_atomically("/d1/cleaner-offset-checkpoint", b"0\nhalf")
    node.kill()
    value = node.start().get(TopicPartition("t", 0))
    assert value is not None
    assert value.log_end_offset == 8
