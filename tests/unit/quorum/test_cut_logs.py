"""The end of a copy of the metadata log after a truncation, a refusal or a replacement, and its recovery."""

from __future__ import annotations

import errno
from random import Random

import pytest

from ottla.model.ids import Uuid
from ottla.quorum.local_log import MetadataLogSettings
from ottla.quorum.snapshots import SnapshotId
from ottla.quorum.voter_log import VoterLog
from ottla.quorum.voters import ReplicaKey, Voter, VoterSet
from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.sim.disk import Directory, SimDisk
from ottla.sim.files import SimFiles
from ottla.sim.kernel import Kernel
from tests.support.files import MemoryFiles
from tests.support.virtual_world import VirtualWorld

DIRECTORY = "/data/__cluster_metadata-0"
ONE_BATCH_EACH = MetadataLogSettings(segment_bytes=1, retention_bytes=0)


def a_world(*, immediate: bool = True, files: MemoryFiles | None = None) -> tuple[VirtualWorld, MemoryFiles]:
    files = files or MemoryFiles()
    files.make_directories("/data")
    return VirtualWorld(immediate_workers=immediate, files=files), files


def a_follower(virtual: VirtualWorld, settings: MetadataLogSettings | None = None) -> VoterLog:
    return VoterLog.open(
        world=virtual.world,
        metadata_log_dir="/data",
        node_id=1,
        settings=settings,
        directory_id=Uuid(bytes(range(16))),
        configured_voters=VoterSet(Voter(ReplicaKey(node_id)) for node_id in (1, 2, 3)),
    )


def a_batch(offset: int, *, epoch: int, count: int = 1) -> bytes:
    records = [Record(value=b"%d" % (offset + index), timestamp=1) for index in range(count)]
    return bytes(build_batch(records, base_offset=offset, leader_epoch=epoch))


def write_snapshot(log: VoterLog, *, end_offset: int, epoch: int) -> None:
    log.commit_to(end_offset)
    written = log.write_snapshot(end_offset=end_offset, epoch=epoch, values=[b"all"], last_contained_timestamp_ms=1)
    assert written.error is None


def fetched_snapshot(*, end_offset: int, epoch: int) -> bytes:
    """The bytes of a snapshot as another node wrote it."""
    files = MemoryFiles()
    files.make_directories("/data")
    other = a_follower(VirtualWorld(immediate_workers=True, files=files))
    other.append_fetched(memoryview(a_batch(0, epoch=epoch, count=end_offset)))
    write_snapshot(other, end_offset=end_offset, epoch=epoch)
    return files.read_bytes(f"{DIRECTORY}/{SnapshotId(end_offset, epoch).file_name}")


@pytest.mark.parametrize("settings", [ONE_BATCH_EACH, MetadataLogSettings()])
def test_the_last_epoch_is_that_of_the_last_entry_wherever_the_log_was_cut(settings: MetadataLogSettings) -> None:
    virtual, _ = a_world()
    log = a_follower(virtual, settings)
    for offset, epoch in enumerate((1, 1, 2, 4)):
        log.append_fetched(memoryview(a_batch(offset, epoch=epoch)))
    for offset, epoch in ((3, 2), (2, 1), (1, 1)):
        log.truncate_to(offset)
        assert (log.end_offset, log.last_epoch) == (offset, epoch)
        assert log.end_offset_for_epoch(log.last_epoch) == (epoch, offset)


def test_what_was_appended_before_the_disk_was_full_is_made_durable() -> None:
    virtual, files = a_world(immediate=False)
    log = a_follower(virtual)
    files.capacity_bytes = files.used_bytes() + len(a_batch(0, epoch=1)) + 10
    with pytest.raises(OSError, match="no space") as refused:
        log.append_fetched(memoryview(a_batch(0, epoch=1) + a_batch(1, epoch=1)))
    assert refused.value.errno == errno.ENOSPC
    assert (log.end_offset, log.synced_offset) == (1, 0)
    # A voter asks for more only when all that it has is on its disk.
    virtual.workers.run_all()
    assert log.synced_offset == 1


def test_a_crash_between_a_snapshot_and_the_log_behind_it_leaves_the_epoch_of_the_snapshot() -> None:
    virtual, files = a_world()
    log = a_follower(virtual)
    log.append_fetched(memoryview(a_batch(0, epoch=3, count=5)))
    log.close()
    files.write_atomically(f"{DIRECTORY}/{SnapshotId(9, 5).file_name}", fetched_snapshot(end_offset=9, epoch=5))
    log = a_follower(virtual)
    assert (log.start_offset, log.end_offset, log.last_epoch) == (9, 9, 5)
    log.append_fetched(memoryview(a_batch(9, epoch=6)))
    assert log.end_offset_for_epoch(6) == (6, 10)


def test_a_log_that_a_snapshot_replaces_goes_from_its_end() -> None:
    """Whatever a crash leaves of it has its beginning, so that the snapshot is not taken to be too old for it."""
    virtual, files = a_world()
    log = a_follower(virtual, ONE_BATCH_EACH)
    for offset in range(6):
        log.append_fetched(memoryview(a_batch(offset, epoch=3)))
    identity = SnapshotId(3, 5)
    log.begin_snapshot(identity)
    log.append_snapshot(memoryview(fetched_snapshot(end_offset=3, epoch=5)))
    files.fail_next("remove", OSError(errno.EIO, "the power is gone"), path_contains="00000000000000000001.log")
    with pytest.raises(OSError, match="the power is gone"):
        log.install_snapshot(log.check_snapshot().result())
    again = a_follower(virtual, ONE_BATCH_EACH)
    assert (again.end_offset, again.last_epoch) == (3, 5)


def test_a_log_that_parts_from_its_snapshot_is_dropped() -> None:
    """It was longer than the snapshot that was to replace it, and the crash left all of it."""
    virtual, files = a_world()
    log = a_follower(virtual)
    log.append_fetched(memoryview(a_batch(0, epoch=3, count=5)))
    log.close()
    files.write_atomically(f"{DIRECTORY}/{SnapshotId(3, 5).file_name}", fetched_snapshot(end_offset=3, epoch=5))
    log = a_follower(virtual)
    assert (log.start_offset, log.end_offset, log.last_epoch) == (3, 3, 5)


def test_a_log_without_entries_goes_on_with_the_epoch_of_its_own_snapshot() -> None:
    virtual, _ = a_world()
    log = a_follower(virtual, ONE_BATCH_EACH)
    for offset, epoch in enumerate((1, 2, 3)):
        log.append_fetched(memoryview(a_batch(offset, epoch=epoch)))
    write_snapshot(log, end_offset=1, epoch=1)
    log.append_fetched(memoryview(a_batch(3, epoch=4)))
    write_snapshot(log, end_offset=3, epoch=3)
    assert (log.start_offset, log.end_offset) == (3, 4)
    # The only entry behind the snapshot was never committed.
    log.truncate_to(3)
    assert (log.end_offset, log.last_epoch) == (3, 3)


def test_a_power_cut_leaves_no_gap_between_segments() -> None:
    virtual, files = a_world(immediate=False)
    log = a_follower(virtual, ONE_BATCH_EACH)
    for offset in range(3):
        log.append_fetched(memoryview(a_batch(offset, epoch=1)))
    files.lose_unsynced()
    # Unsynced bytes may be lost, but only from the end of the log.
    assert a_follower(a_world(files=files)[0], ONE_BATCH_EACH).end_offset == 2


def test_a_segment_that_cannot_be_made_durable_stops_the_log() -> None:
    virtual, files = a_world()
    log = a_follower(virtual, ONE_BATCH_EACH)
    failures: list[str] = []
    log.on_failure = lambda error: failures.append(str(error))
    log.append_fetched(memoryview(a_batch(0, epoch=1)))
    files.fail_next("sync", OSError(errno.EIO, "input/output error"))
    with pytest.raises(OSError, match="input/output error"):
        log.append_fetched(memoryview(a_batch(1, epoch=1)))
    assert len(failures) == 1


def test_entries_of_a_segment_that_was_full_survive_the_power_cut_after_a_restart() -> None:
    virtual, files = a_world(immediate=False)
    log = a_follower(virtual, ONE_BATCH_EACH)
    for offset in range(3):
        log.append_fetched(memoryview(a_batch(offset, epoch=1)))
    # Killed before any fsync: the page cache still has it all, and the next process counts it as durable.
    again = a_follower(a_world(files=files)[0], ONE_BATCH_EACH)
    assert again.synced_offset == again.end_offset == 3
    files.lose_unsynced()
    assert a_follower(a_world(files=files)[0], ONE_BATCH_EACH).end_offset == 3


class NamedFiles:
    """A disk that at a power cut keeps any part of the file names whose directory was not synced."""

    def __init__(self, seed: int) -> None:
        self.disk = SimDisk(Random(seed))
        self.disk.root.change(("data", Directory()))
        self.disk.root.sync()

    def open_log(self, settings: MetadataLogSettings | None = None) -> VoterLog:
        files = SimFiles(Kernel(0), self.disk)
        return a_follower(VirtualWorld(immediate_workers=True, files=files), settings)


@pytest.mark.parametrize("seed", range(8))
def test_the_name_of_a_new_segment_is_durable_with_its_first_entry(seed: int) -> None:
    node = NamedFiles(seed)
    log = node.open_log(ONE_BATCH_EACH)
    for offset in range(3):
        log.append_fetched(memoryview(a_batch(offset, epoch=1)))
        assert log.synced_offset == offset + 1
    node.disk.lose_power()
    assert node.open_log(ONE_BATCH_EACH).end_offset == 3


@pytest.mark.parametrize("seed", range(8))
def test_a_removed_segment_does_not_come_back_behind_a_shorter_one(seed: int) -> None:
    two_batches_each = MetadataLogSettings(segment_bytes=100)
    node = NamedFiles(seed)
    log = node.open_log(two_batches_each)
    for offset in range(4):
        log.append_fetched(memoryview(a_batch(offset, epoch=1)))
    log.truncate_to(1)
    node.disk.lose_power()
    assert node.open_log(two_batches_each).end_offset == 1


def test_a_log_that_is_closed_during_an_fsync_is_durable_and_has_not_failed() -> None:
    virtual, files = a_world(immediate=False)
    log = a_follower(virtual)
    failures: list[Exception] = []
    log.on_failure = failures.append
    log.append_fetched(memoryview(a_batch(0, epoch=1)))
    log.close()
    files.lose_unsynced()
    files.fail_next("sync", OSError(errno.EBADF, "the file is closed"))
    virtual.workers.run_all()
    assert failures == []
    assert a_follower(virtual).end_offset == 1
