"""Leftovers of interrupted operations in a log directory, and how the next start handles them."""

from __future__ import annotations

import errno

import pytest

from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition, Uuid
from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.storage.errors import DirectoryRefused
from tests.unit.storage.helpers import log_config, values_of
from tests.unit.storage.logs_node import TOPIC_ID, Node

T0 = TopicPartition("t", 0)
ANOTHER_ID = Uuid(b"fedcba9876543210")


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


@pytest.mark.parametrize("metadata", [None, b"", b"version: 0\ntopic_id: %s" % str(TOPIC_ID).encode()])
def test_what_is_removed_after_a_start_is_never_a_log_in_service(metadata: bytes | None) -> None:
    node = Node("/d1", "/d2", log_segment_delete_delay_ms="1000")
    node.start()
    node.append(node.create("t"), b"old")
    node.stop()
    node.files.make_directories("/d2/t-0")
    if metadata is not None:
        node.files.write_atomically("/d2/t-0/partition.metadata", metadata)
    logs = node.start()
    # The topic was deleted and created again in the meantime: the old log is not in the metadata.
    logs.set_aside_stray(T0)
    second = logs.directories[1].directory_id
    log = logs.get_or_create(T0, ANOTHER_ID, log_config(), directory_id=second)
    node.append(log, b"new")
    assert log.directory == "/d2/t-0"
    node.world.scheduler.advance(1000)
    assert sorted(name for name in node.files.list_directory("/d2") if name.startswith("t-0")) == ["t-0"]
    node.kill()
    value = node.start().get(T0)
    assert value is not None
    assert values_of(value) == [b"new"]


@pytest.mark.parametrize("new", ["/d1", "/d2"])
def test_an_empty_log_of_another_topic_id_is_no_remainder(new: str) -> None:
    """A disk was out of service while the topic was deleted and created again. Only the operator knows both."""
    old = "/d2" if new == "/d1" else "/d1"
    node = Node(old, log_segment_delete_delay_ms="1000")
    node.start()
    node.append(node.create("t"), b"old")
    node.stop()
    node.paths = (new,)
    node.start().get_or_create(T0, ANOTHER_ID, log_config())
    node.stop()
    node.paths = ("/d1", "/d2")
    with pytest.raises(DirectoryRefused, match=rf"{TOPIC_ID} in {old}") as caught:
        node.start()
    assert f"{ANOTHER_ID} in {new}" in str(caught.value)
    node.world.scheduler.advance(1000)
    assert node.files.is_directory("/d1/t-0")
    assert node.files.is_directory("/d2/t-0")
    node.files.remove_tree(f"{old}/t-0")
    logs = node.start()
    assert logs.topic_id_of(T0) == ANOTHER_ID


def test_a_remainder_that_cannot_be_renamed_takes_its_directory_out_of_service() -> None:
    node = Node("/d1", "/d2", log_segment_delete_delay_ms="1000")
    node.start()
    node.append(node.create("t"), b"a")
    node.stop()
    node.files.make_directories("/d2/t-0")
    node.files.fail_next("rename", OSError(errno.EIO, "no"), path_contains="/d2/t-0")
    logs = node.start()
    value = logs.get(T0)
    assert value is not None
    assert values_of(value) == [b"a"]
    assert [directory.is_offline for directory in logs.directories] == [False, True]
    node.world.scheduler.advance(1000)
    assert node.files.is_directory("/d2/t-0")
