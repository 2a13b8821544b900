"""A stray or foreign file in a partition directory affects that partition at most, never its node."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.host.files import OsFiles
from ottla.model.config import BrokerConfig
from ottla.model.ids import TopicPartition, Uuid
from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.storage.errors import StorageError
from ottla.storage.log import PartitionLog
from ottla.storage.manager import LogManager
from tests.support.virtual_world import VirtualWorld
from tests.unit.storage.helpers import log_config, values_of

TOPIC_ID = Uuid(b"0123456789abcdef")
NEIGHBOUR = TopicPartition("neighbour", 0)
SEGMENT = f"{0:020d}"


class DiskNode:
    """A node's logs on a real file system, in one log directory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.start()

    def start(self) -> None:
        self.world = VirtualWorld(immediate_workers=True, files=OsFiles())
        config = BrokerConfig.embedded({"log.dirs": str(self.path)})
        self.logs = LogManager(self.world.world, config, cluster_id="c1", node_id=1)
        self.logs.open(begins_upkeep=False).result()

    def create(self, topic_partition: TopicPartition) -> PartitionLog:
        return self.logs.get_or_create(topic_partition, TOPIC_ID, log_config())

    def append(self, log: PartitionLog, *values: bytes) -> None:
        built = build_batch([Record(key=None, value=value, timestamp=1000) for value in values])
        log.append_built(built, leader_epoch=0, now_ms=self.world.clock.now_ms())

    def stop(self, *, clean: bool) -> None:
        if clean:
            self.logs.close(broker_epoch=5).result()
        else:
            for directory in self.logs.directories:
                directory.close()


def a_file(name: str, data: bytes = b"not a batch" * 50) -> Callable[[Path], None]:
    def place(directory: Path) -> None:
        (directory / name).write_bytes(data)

    return place


def a_directory(name: str) -> Callable[[Path], None]:
    def place(directory: Path) -> None:
        (directory / name).unlink(missing_ok=True)
        (directory / name / "inside").mkdir(parents=True)

    return place


def a_dangling_link(name: str) -> Callable[[Path], None]:
    def place(directory: Path) -> None:
        (directory / name).unlink(missing_ok=True)
        os.symlink(directory / "nowhere" / "at-all", directory / name)

    return place


HARMLESS = {
    "a file of another program": a_file("core.1234"),
    "a name that is not UTF-8": lambda directory: open(os.fsencode(directory) + b"/\xff\xfe.log", "wb").close(),
    "a log without an offset": a_file("backup.log"),
    "a swap file without an offset": a_file("backup.log.swap"),
    "a swap file of a copied name": a_file("copy.00000000000000000000.log.swap"),
    "a snapshot without an offset": a_file("old.snapshot"),
    "a snapshot of nonsense": a_file("00000000000000000001.snapshot"),
    "an offset beyond 64 bits": a_file("99999999999999999999.log"),
    "an index beyond 64 bits": a_file("99999999999999999999.index"),
    "a snapshot beyond 64 bits": a_file("99999999999999999999.snapshot"),
    "a directory": a_directory("lost+found"),
    "a directory of an unfinished file": a_directory("leader-epoch-checkpoint.tmp"),
    "a directory of a cleaned segment": a_directory(SEGMENT + ".log.cleaned"),
    "a directory of a deleted segment": a_directory(SEGMENT + ".log.deleted"),
    "a directory of a swapped segment": a_directory(SEGMENT + ".log.swap"),
    "a dangling link": a_dangling_link("somewhere"),
    "an epoch checkpoint of nonsense": a_file("leader-epoch-checkpoint"),
}
HARMFUL = {
    "a directory for the segment": a_directory(SEGMENT + ".log"),
    "a dangling link for the segment": a_dangling_link(SEGMENT + ".log"),
    "a directory for the epochs": a_directory("leader-epoch-checkpoint"),
    "a directory for the topic id": a_directory("partition.metadata"),
    "a topic id of nonsense": a_file("partition.metadata"),
    "a directory for an index": a_directory(SEGMENT + ".index"),
    "a directory for a snapshot": a_directory("00000000000000000001.snapshot"),
    "a directory for a later segment": a_directory("00000000000000000007.log"),
}


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    monkeypatch.setattr(os, "fdatasync", lambda descriptor: None)


@pytest.mark.parametrize("clean", [True, False])
def test_a_foreign_file_affects_its_partition_at_most(tmp_path: Path, clean: bool) -> None:
    node = DiskNode(tmp_path)
    damages = {**HARMLESS, **HARMFUL}
    partitions = {name: TopicPartition("t", number) for number, name in enumerate(damages)}
    for topic_partition in (*partitions.values(), NEIGHBOUR):
        node.append(node.create(topic_partition), b"a", b"b")
    node.stop(clean=clean)
    for name, place in damages.items():
        place(tmp_path / str(partitions[name]))
    node.start()
    assert not node.logs.directories[0].is_offline
    logs = {name: node.logs.get(topic_partition) for name, topic_partition in partitions.items()}
    assert [name for name in HARMLESS if logs[name] is None] == []
    for log in (node.create(NEIGHBOUR), *filter(None, logs.values())):
        assert values_of(log) == [b"a", b"b"]
        node.append(log, b"c")
        assert values_of(log) == [b"a", b"b", b"c"]
    for name in HARMFUL:
        if logs[name] is None:
            # Neither an empty log nor a failed directory takes its place.
            with pytest.raises(StorageError, match="cannot be opened"):
                node.create(partitions[name])
    node.stop(clean=True)
    assert not node.logs.directories[0].is_offline


def test_a_file_in_the_place_of_a_partition_directory_affects_its_partition_only(tmp_path: Path) -> None:
    node = DiskNode(tmp_path)
    (tmp_path / "u-0").write_bytes(b"")
    with pytest.raises(StorageError):
        node.create(TopicPartition("u", 0))
    node.append(node.create(NEIGHBOUR), b"a")
    assert not node.logs.directories[0].is_offline


def test_a_directory_whose_number_is_no_partition_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "t-99999999999").mkdir()
    node = DiskNode(tmp_path)
    assert len(node.logs) == 0


@pytest.mark.parametrize("knows_id", [True, False])
def test_a_refused_log_of_a_former_topic_is_set_aside(tmp_path: Path, knows_id: bool) -> None:
    partition = TopicPartition("t", 0)
    node = DiskNode(tmp_path)
    node.append(node.create(partition), b"former")
    node.stop(clean=True)
    directory = tmp_path / "t-0"
    a_directory("leader-epoch-checkpoint" if knows_id else "partition.metadata")(directory)
    node.start()
    for _ in range(2):
        with pytest.raises(StorageError):
            node.create(partition)
    new_id = Uuid(b"fedcba9876543210")
    with pytest.raises(StorageError, match="checkpoint"):
        node.logs.get_or_create(partition, new_id, log_config())
    assert not node.logs.is_refused(partition)
    node.world.scheduler.run()
    assert node.logs.get_or_create(partition, new_id, log_config()).log_end_offset == 0
    [stray] = [path for path in tmp_path.iterdir() if path.name.endswith("-stray")]
    assert (stray / f"{SEGMENT}.log").stat().st_size > 0


def test_a_log_that_is_recovered_after_its_topic_was_created_again_is_set_aside(tmp_path: Path) -> None:
    partition = TopicPartition("t", 0)
    node = DiskNode(tmp_path)
    log = node.create(partition)
    node.append(log, b"former")
    node.world.workers.immediate = False
    log.files.failures.fail_log("its files were changed")
    new_id = Uuid(b"fedcba9876543210")
    with pytest.raises(StorageError):
        node.logs.get_or_create(partition, new_id, log_config())
    node.world.workers.immediate = True
    node.world.workers.run_all()
    node.world.scheduler.run()
    assert node.logs.get_or_create(partition, new_id, log_config()).log_end_offset == 0
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith("-stray")]
