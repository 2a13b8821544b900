"""The file in which a clean shutdown records its logs: a start trusts it only for unchanged directories."""

from __future__ import annotations

import copy
import errno
import json
import random
from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import pytest

from ottla.host.files import OsFiles
from ottla.model.ids import TopicPartition
from ottla.records.validate import AppendOrigin
from ottla.storage.clean_logs import read_clean_logs, write_clean_logs
from ottla.storage.errors import StorageError
from ottla.storage.log import PartitionLog
from ottla.storage.open_files import OpenFiles
from ottla.storage.recovery import open_log
from tests.support.files import MemoryFiles
from tests.support.virtual_world import VirtualWorld
from tests.unit.storage.helpers import batch, log_config, values_of
from tests.unit.storage.logs_node import TOPIC_ID, Node

FILE = "/d1/ottla-clean-logs"
MARKER = "/d1/.kafka_cleanshutdown"
LOG = "/d1/t-0/00000000000000000000.log"
SNAPSHOT = "/d1/t-0/00000000000000000003.snapshot"
ONE = TopicPartition("t", 0)


class CountingFiles(MemoryFiles):
    """Notes the directories of partitions that are read, and what is synced."""

    def __init__(self) -> None:
        super().__init__()
        self.listed: list[str] = []
        self.synced: list[str] = []

    def check(self, operation: str, path: str) -> None:
        if operation in ("sync", "sync_directory"):
            self.synced.append(path)
        super().check(operation, path)

    def list_directory(self, path: str) -> list[str]:
        if path.count("/") > 1:
            self.listed.append(path)
        return super().list_directory(path)


def a_stopped_node() -> tuple[Node, CountingFiles]:
    files = CountingFiles()
    node = Node(files=files)
    node.start()
    log = node.create("t")
    append(node, log, b"a", leader_epoch=0)
    append(node, log, b"b", b"c", leader_epoch=3, producer_id=7, producer_epoch=0, sequence=0)
    log.update_high_watermark(2)
    node.create("empty", 5)
    node.stop()
    files.listed.clear()
    return node, files


def append(node: Node, log: PartitionLog, *values: bytes, leader_epoch: int = 0, **fields: int) -> None:
    built = batch(*values, timestamp=node.world.clock.now_ms(), **fields)  # type: ignore[arg-type]
    log.append_built(built, leader_epoch=leader_epoch, now_ms=node.world.clock.now_ms(), origin=AppendOrigin.CLIENT)
    node.world.scheduler.run()


def started(node: Node) -> PartitionLog:
    log = node.start().get(ONE)
    assert log is not None
    return log


def state_of(log: PartitionLog) -> object:
    """All that a restart has to find again."""
    return (
        (log.log_start_offset, log.high_watermark, log.log_end_offset, log.recovery_point, log.doubtful_from),
        [(segment.base_offset, segment.size, segment.file.read(0, segment.size)) for segment in log.segments],
        [segment.largest() for segment in log.segments],
        log.epochs.entries,
        sorted(
            (entry.producer_id, entry.epoch, entry.last_sequence, entry.last_offset, entry.may_know_less_than_log)
            for entry in log.active_producers()
        ),
        (log.producers.snapshots, log.first_unstable_offset, log.may_have_gaps),
        sorted(log.files.failures.damaged_segments),
    )


def test_logs_are_found_as_they_were_left_without_reading_their_directories() -> None:
    node, files = a_stopped_node()
    log = started(node)
    assert files.listed == []
    assert values_of(log) == [b"a", b"b", b"c"]
    assert (log.high_watermark, log.log_end_offset, log.recovery_point) == (2, 3, 3)
    assert [tuple(entry) for entry in log.epochs.entries] == [(0, 0), (3, 1)]
    assert [(entry.producer_id, entry.last_sequence) for entry in log.active_producers()] == [(7, 1)]
    assert node.logs.topic_id_of(TopicPartition("empty", 5)) == TOPIC_ID
    append(node, log, b"d", leader_epoch=3, producer_id=7, producer_epoch=0, sequence=2)
    assert values_of(log)[-1] == b"d"
    # The file served one start.
    assert not files.exists(FILE)


def longer(files: MemoryFiles) -> None:
    files.open(LOG).append(batch(b"x", base_offset=3, leader_epoch=3))


def shorter(files: MemoryFiles) -> None:
    files.open(LOG).truncate(files.size_of(LOG) - 1)


def rotten(files: MemoryFiles) -> None:
    files.corrupt(LOG, files.size_of(LOG) - 1, 0xFF)


def removed(files: MemoryFiles) -> None:
    files.remove(LOG)


def with_a_foreign_file(files: MemoryFiles) -> None:
    files.open("/d1/t-0/notes.txt")


def with_other_epochs(files: MemoryFiles) -> None:
    files.write_atomically("/d1/t-0/leader-epoch-checkpoint", b"0\n1\n0 0\n")


@pytest.mark.parametrize("change", [longer, shorter, rotten, removed, with_a_foreign_file, with_other_epochs])
def test_a_log_that_has_changed_is_opened_from_its_files(change: Callable[[MemoryFiles], None]) -> None:
    node, files = a_stopped_node()
    change(files)
    states = []
    content = files.read_bytes(FILE), files.read_bytes(MARKER)
    for is_left in (True, False):
        again = Node(files=copy.deepcopy(files))
        if not is_left:
            again.files.remove(FILE)
        states.append(state_of(started(again)))
    assert states[0] == states[1]
    assert (files.read_bytes(FILE), files.read_bytes(MARKER)) == content
    node.files = files
    started(node)
    assert files.listed == ["/d1/t-0"]


def test_after_a_crash_an_old_file_means_nothing() -> None:
    node, files = a_stopped_node()
    old = files.read_bytes(FILE)
    log = started(node)
    append(node, log, b"d", leader_epoch=3)
    node.kill()
    files.write_atomically(FILE, old)
    assert values_of(started(node)) == [b"a", b"b", b"c", b"d"]
    assert not node.logs.had_clean_shutdown
    assert "/d1/t-0" in files.listed
    assert not files.exists(FILE)


def test_the_marker_of_another_shutdown_does_not_belong_to_the_file() -> None:
    """Apache Kafka may have used the directory: it leaves its own marker, and our file as it was."""
    node, files = a_stopped_node()
    files.write_atomically(MARKER, b'{"version":0,"brokerEpoch":6}')
    assert values_of(started(node)) == [b"a", b"b", b"c"]
    assert sorted(files.listed) == ["/d1/empty-5", "/d1/t-0"]


@pytest.mark.parametrize("damage", ["", "00000000", "half", "another version", "garbage"])
def test_a_damaged_file_is_ignored(damage: str) -> None:
    node, files = a_stopped_node()
    content = files.read_bytes(FILE)
    if damage == "half":
        content = content[: len(content) // 2]
    elif damage == "another version":
        body = json.dumps([1, *json.loads(content[8:])[1:]]).encode()
        content = b"%08x" % crc32(body) + body
    else:
        content = damage.encode()
    files.write_atomically(FILE, content)
    assert values_of(started(node)) == [b"a", b"b", b"c"]
    assert sorted(files.listed) == ["/d1/empty-5", "/d1/t-0"]


def test_damage_that_leaves_no_trace_is_found_before_the_first_append(monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk may lose bytes silently. Nothing is appended behind them."""
    node, files = a_stopped_node()
    intact_stamp = files.stamp_of(LOG)
    rotten(files)
    monkeypatch.setattr(
        files, "stamp_of", lambda path: intact_stamp if path == LOG else MemoryFiles.stamp_of(files, path)
    )
    log = started(node)
    assert files.listed == []
    with pytest.raises(StorageError, match=r"the last batches in .* are damaged"):
        append(node, log, b"d", leader_epoch=3)
    node.world.scheduler.run()
    recovered = node.logs.get_or_create(ONE, TOPIC_ID, log_config())
    assert recovered is not log
    # The offsets of the lost records are not given again.
    assert recovered.doubtful_from == 1
    append(node, recovered, b"d", leader_epoch=3)
    assert recovered.log_end_offset == 4


def test_a_log_with_files_to_remove_is_opened_from_its_files() -> None:
    node, files = a_stopped_node()
    log = started(node)
    log.truncate_fully_and_start_at(10)
    node.stop()
    assert any(name.endswith(".deleted") for name in files.list_directory("/d1/t-0"))
    files.listed.clear()
    assert started(node).log_end_offset == 10
    assert files.listed == ["/d1/t-0"]
    assert not any(name.endswith(".deleted") for name in files.list_directory("/d1/t-0"))


@pytest.mark.parametrize("is_removed", [True, False])
def test_a_file_that_was_damaged_while_the_node_ran_is_opened_from_its_files(is_removed: bool) -> None:
    node, files = a_stopped_node()
    started(node)
    if is_removed:
        files.remove(LOG)
    else:
        shorter(files)
    node.stop()
    files.listed.clear()
    log = started(node)
    assert files.listed == ["/d1/t-0"]
    # The first batch has survived the truncation.
    assert log.segments[0].size < 200
    assert log.log_end_offset == 3
    assert not node.logs.had_clean_shutdown


@pytest.mark.parametrize("seed", range(20))
def test_a_start_from_the_file_finds_what_a_start_from_the_files_finds(seed: int) -> None:
    choice = random.Random(seed)
    node = Node(log_segment_delete_delay_ms="0")
    node.start()
    node.create("t", segment_bytes=300, cleanup_policy=choice.choice(["delete", "compact"]))
    for _ in range(4):
        sequences = {entry.producer_id: entry.last_sequence for entry in node.logs.get(ONE).active_producers()}  # type: ignore[union-attr]
        for _ in range(choice.randrange(8)):
            log = node.logs.get(ONE)
            assert log is not None
            epoch = log.epochs.latest + choice.choice([0, 0, 1]) if log.epochs.latest >= 0 else 0
            producer = choice.choice([-1, 7, 8])
            fields = {}
            if producer >= 0:
                sequences[producer] = sequences.get(producer, -1) + 1
                fields = {"producer_id": producer, "producer_epoch": 0, "sequence": sequences[producer]}
            append(node, log, b"%d" % choice.randrange(1000), leader_epoch=epoch, **fields)
            log.update_high_watermark(log.log_end_offset)
            if choice.random() < 0.1:
                log.advance_log_start_offset(choice.randint(log.log_start_offset, log.log_end_offset))
        node.stop()
        states = []
        for is_left in (True, False):
            again = Node(files=copy.deepcopy(node.files))
            if not is_left:
                again.files.remove(FILE)
            states.append(state_of(started(again)))
        assert states[0] == states[1]
        node.start()
        node.create("t", segment_bytes=300)


def test_every_marker_of_a_file_system_belongs_to_its_file(tmp_path: Path) -> None:
    """Stamps are hashes, which may be negative."""
    files = OsFiles()
    world = VirtualWorld(immediate_workers=True, files=files)
    pool = OpenFiles(files, limit=10)
    (tmp_path / "t-0").mkdir()
    log, _ = open_log(
        world.world,
        pool,
        topic_partition=ONE,
        directory=str(tmp_path / "t-0"),
        config=log_config(),
        clean_shutdown=True,
    )
    marker = str(tmp_path / ".kafka_cleanshutdown")
    for _ in range(30):
        files.write_atomically(marker, b"", durable=False)
        stamp = files.stamp_of(marker)
        write_clean_logs(files, str(tmp_path), [(log, TOPIC_ID)], marker_stamp=stamp)
        assert list(read_clean_logs(files, str(tmp_path), marker_stamp=stamp)) == [str(ONE)]
    log.close()


def test_a_snapshot_that_was_removed_while_the_node_ran_is_written_again() -> None:
    node, files = a_stopped_node()
    started(node)
    files.remove(SNAPSHOT)
    node.stop()
    log = started(node)
    assert values_of(log) == [b"a", b"b", b"c"]
    assert [(entry.producer_id, entry.last_sequence) for entry in log.active_producers()] == [(7, 1)]


@pytest.mark.parametrize("is_removed", [True, False])
def test_without_an_intact_snapshot_the_log_is_opened_from_its_files(
    monkeypatch: pytest.MonkeyPatch, is_removed: bool
) -> None:
    """The last batches are damaged as well, and no file stamp shows it."""
    node, files = a_stopped_node()
    stamps = {path: files.stamp_of(path) for path in (LOG, "/d1/t-0")}
    rotten(files)
    if is_removed:
        files.remove(SNAPSHOT)
    else:
        files.corrupt(SNAPSHOT, files.size_of(SNAPSHOT) - 1, 0xFF)
    monkeypatch.setattr(files, "stamp_of", lambda path: stamps.get(path) or MemoryFiles.stamp_of(files, path))
    log = started(node)
    assert files.listed == ["/d1/t-0"]
    # No offset is given twice.
    assert log.log_end_offset == 3
    assert log.doubtful_from == 1


def test_the_start_of_a_log_is_that_of_the_shutdown_whatever_the_checkpoint_says() -> None:
    node, files = a_stopped_node()
    files.write_atomically("/d1/log-start-offset-checkpoint", b"0\n1\nt 0 50\n")
    log = started(node)
    assert (log.log_start_offset, log.log_end_offset) == (0, 3)
    assert values_of(log) == [b"a", b"b", b"c"]


def test_a_shutdown_without_its_last_checkpoint_is_not_clean() -> None:
    node, files = a_stopped_node()
    log = started(node)
    append(node, log, b"d", leader_epoch=3)
    files.fail_next("write_atomically", OSError(errno.ENOSPC, "full"), path_contains="recovery-point-offset-checkpoint")
    node.stop()
    assert not files.exists(MARKER)
    assert not files.exists(FILE)


def test_a_shutdown_without_a_flush_is_not_clean() -> None:
    """The shortage may be over when the marker is written."""
    node, files = a_stopped_node()
    log = started(node)
    append(node, log, b"d", leader_epoch=3)
    files.fail_next("sync", OSError(errno.EMFILE, "too many open files"), path_contains=LOG)
    node.stop()
    assert not files.exists(MARKER)
    assert not files.exists(FILE)


@pytest.mark.parametrize("is_killed", [False, True])
def test_the_directory_of_a_log_that_was_empty_is_synced_with_its_first_flush(is_killed: bool) -> None:
    files = CountingFiles()
    node = Node(files=files)
    node.start()
    node.create("t")
    if is_killed:
        node.kill()
    else:
        node.stop()
    log = started(node)
    append(node, log, b"a")
    files.synced.clear()
    log.flush().result()
    assert {"/d1", "/d1/t-0", "/d1/t-0/partition.metadata", LOG} <= set(files.synced)


def test_the_directory_of_a_log_that_begins_anew_is_synced_with_its_next_flush() -> None:
    node, files = a_stopped_node()
    log = started(node)
    log.truncate_fully_and_start_at(10)
    append(node, log, b"d", leader_epoch=3)
    files.synced.clear()
    log.flush().result()
    assert "/d1/t-0" in files.synced
