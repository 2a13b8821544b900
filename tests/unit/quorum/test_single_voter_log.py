"""The metadata log of a quorum of one: durability, group commit, recovery, snapshots."""

from __future__ import annotations

import errno

import pytest

from ottla.model.deferred import Deferred
from ottla.model.ids import Uuid
from ottla.quorum.errors import MetadataLogDamagedError, MetadataLogFailedError, MetadataLogUnsupportedError
from ottla.quorum.log import MetadataLogSettings
from ottla.quorum.quorum_state import QuorumState, read_quorum_state, write_quorum_state
from ottla.quorum.snapshots import list_snapshots, read_snapshot
from ottla.quorum.voter_log import VoterLog
from tests.support.files import MemoryFiles
from tests.support.quorum import open_single_voter
from tests.support.virtual_world import VirtualWorld

DIRECTORY = "/data/__cluster_metadata-0"
FIRST_SEGMENT = f"{DIRECTORY}/00000000000000000000.log"


def a_world(*, immediate: bool = True, files: MemoryFiles | None = None) -> VirtualWorld:
    files = files or MemoryFiles()
    files.make_directories("/data")
    return VirtualWorld(immediate_workers=immediate, files=files)


def memory(virtual: VirtualWorld) -> MemoryFiles:
    assert isinstance(virtual.files, MemoryFiles)
    return virtual.files


def open_log(virtual: VirtualWorld, settings: MetadataLogSettings | None = None) -> VoterLog:
    return open_single_voter(world=virtual.world, metadata_log_dir="/data", node_id=1, settings=settings)


def values_of(log: VoterLog, from_offset: int = 0) -> list[bytes]:
    return [bytes(value) for batch in log.committed_batches(from_offset) for value in batch.values]


def test_an_epoch_begins_with_a_leader_change_and_each_start_is_a_new_epoch() -> None:
    virtual = a_world()
    log = open_log(virtual)
    assert (log.leader_epoch, log.end_offset, log.committed_offset) == (1, 1, 1)
    assert read_quorum_state(virtual.files, DIRECTORY) == QuorumState(
        leader_id=1, leader_epoch=1, voted_id=1, voters=(1,)
    )
    log.close()
    again = open_log(virtual)
    assert (again.leader_epoch, again.end_offset) == (2, 2)
    assert [(batch.base_offset, batch.epoch, batch.values) for batch in again.committed_batches(0)] == [
        (0, 1, []),
        (1, 2, []),
    ]


def test_an_append_is_committed_only_when_it_is_durable() -> None:
    virtual = a_world(immediate=False)
    log = open_log(virtual)
    virtual.workers.run_all()
    committed = log.append([b"one", b"two"])
    assert not committed.done
    assert log.committed_offset == 1
    assert values_of(log) == []
    virtual.workers.run_all()
    assert committed.result() == 2
    assert values_of(log) == [b"one", b"two"]


def test_what_arrives_during_an_fsync_shares_the_next_one() -> None:
    virtual = a_world(immediate=False)
    log = open_log(virtual)
    virtual.workers.run_all()
    before = memory(virtual).sync_count
    appends = [log.append([b"%d" % number]) for number in range(10)]
    # The first append started an fsync, which may or may not cover the others: they wait for the next.
    virtual.workers.run_one()
    assert [append.done for append in appends] == [True] + [False] * 9
    virtual.workers.run_one()
    assert all(append.done for append in appends)
    assert memory(virtual).sync_count - before == 2
    assert [append.result() for append in appends] == list(range(1, 11))


def test_a_power_cut_keeps_what_was_committed_and_nothing_else_is_believed() -> None:
    virtual = a_world(immediate=False)
    log = open_log(virtual)
    log.append([b"kept"])
    virtual.workers.run_all()
    log.append([b"lost"])
    memory(virtual).lose_unsynced()
    after = a_world(files=memory(virtual))
    assert values_of(open_log(after)) == [b"kept"]


@pytest.mark.parametrize("cut", range(1, 70, 7))
def test_a_torn_tail_is_cut_off(cut: int) -> None:
    virtual = a_world()
    log = open_log(virtual)
    log.append([b"first"])
    log.append([b"second"])
    log.close()
    node = memory(virtual).nodes[FIRST_SEGMENT]
    del node.data[-cut:]
    again = open_log(virtual)
    assert again.cut_bytes > 0
    assert values_of(again) == [b"first"]
    again.append([b"third"])
    again.close()
    assert values_of(open_log(virtual)) == [b"first", b"third"]


def test_every_flipped_bit_of_the_last_batch_is_cut_off_or_refused() -> None:
    virtual = a_world()
    log = open_log(virtual)
    log.append([b"first"])
    start = log.size_bytes
    log.append([b"second"])
    log.close()
    sound = bytes(memory(virtual).nodes[FIRST_SEGMENT].data)
    for position in range(start, len(sound)):
        memory(virtual).nodes[FIRST_SEGMENT].data[:] = sound
        memory(virtual).corrupt(FIRST_SEGMENT, position, 1 << position % 8)
        values = values_of(open_log(virtual))
        # The leader epoch is not covered by the checksum, as in Kafka, so that one reads as before.
        assert values in ([b"first"], [b"first", b"second"])
        if values == [b"first", b"second"]:
            assert start + 12 <= position < start + 16


def test_damage_before_sound_entries_stops_the_start() -> None:
    virtual = a_world()
    log = open_log(virtual)
    start = log.size_bytes
    log.append([b"first"])
    log.append([b"second"])
    log.close()
    memory(virtual).corrupt(FIRST_SEGMENT, start + 65, 1)
    with pytest.raises(MetadataLogDamagedError, match=f"byte {start}"):
        open_log(virtual)


def test_a_full_disk_refuses_one_append_and_the_next_succeeds() -> None:
    virtual = a_world()
    log = open_log(virtual)
    memory(virtual).fail_next("append", OSError(errno.ENOSPC, "no space left on device"))
    refused = log.append([b"refused"])
    assert isinstance(refused.error, OSError)
    assert log.append([b"taken"]).result() == 1
    log.close()
    assert values_of(open_log(virtual)) == [b"taken"]


def test_a_segment_that_cannot_be_begun_refuses_one_append() -> None:
    virtual = a_world()
    log = open_log(virtual, MetadataLogSettings(segment_bytes=1))
    memory(virtual).fail_next("open", OSError(errno.ENOSPC, "no space left on device"))
    assert isinstance(log.append([b"refused"]).error, OSError)
    assert log.append([b"taken"]).result() == 1


def test_a_failed_fsync_stops_the_log_for_good() -> None:
    virtual = a_world(immediate=False)
    log = open_log(virtual)
    virtual.workers.run_all()
    failures: list[MetadataLogFailedError] = []
    log.on_failure = failures.append
    waiting = [log.append([b"a"]), log.append([b"b"])]
    memory(virtual).fail_next("sync", OSError(errno.EIO, "input/output error"))
    virtual.workers.run_all()
    assert all(isinstance(waiter.error, MetadataLogFailedError) for waiter in waiting)
    assert len(failures) == 1
    assert isinstance(log.append([b"c"]).error, MetadataLogFailedError)
    assert log.committed_offset == 1


def test_a_snapshot_holds_the_values_and_the_oldest_go_with_the_log_before_them() -> None:
    virtual = a_world()
    log = open_log(virtual, MetadataLogSettings(segment_bytes=200, retention_bytes=1))
    for number in range(10):
        log.append([b"value %d" % number])
    assert len([name for name in virtual.files.list_directory(DIRECTORY) if name.endswith(".log")]) > 3
    for end_offset in (5, 9):
        written = log.write_snapshot(
            end_offset=end_offset, epoch=1, values=[b"state %d" % end_offset], last_contained_timestamp_ms=7
        )
        assert written.result().end_offset == end_offset
    assert [snapshot.end_offset for snapshot in list_snapshots(virtual.files, DIRECTORY)] == [9]
    assert 0 < log.start_offset <= 9
    log.close()
    again = open_log(virtual)
    newest = again.latest_snapshot()
    assert newest is not None
    assert (newest[0].end_offset, [bytes(value) for value in newest[1].values]) == (9, [b"state 9"])
    assert newest[1].last_contained_timestamp_ms == 7
    assert values_of(again, 9) == [b"value 8", b"value 9"]


@pytest.mark.parametrize(
    ("settings", "age_ms", "kept"),
    [
        (MetadataLogSettings(retention_bytes=-1, retention_ms=-1), 10**10, [1, 2, 3]),
        (MetadataLogSettings(retention_bytes=1 << 20, retention_ms=1000), 500, [1, 2, 3]),
        (MetadataLogSettings(retention_bytes=1 << 20, retention_ms=1000), 1001, [2, 3]),
        (MetadataLogSettings(retention_bytes=1, retention_ms=-1), 0, [3]),
    ],
)
def test_old_snapshots_go_by_size_and_age(settings: MetadataLogSettings, age_ms: int, kept: list[int]) -> None:
    files = MemoryFiles()
    virtual = a_world(files=files)
    files.now_ms = virtual.clock.now_ms
    log = open_log(virtual, settings)
    for number in (1, 2, 3):
        log.append([b"value"])
        written = log.write_snapshot(end_offset=number, epoch=1, values=[b"x"], last_contained_timestamp_ms=0)
        assert written.error is None
        if number == 1:
            virtual.clock.ms += age_ms
    assert [snapshot.end_offset for snapshot in list_snapshots(files, DIRECTORY)] == kept


def test_a_snapshot_that_was_not_finished_is_removed() -> None:
    virtual = a_world()
    log = open_log(virtual)
    memory(virtual).fail_next("rename", OSError(errno.EIO, "input/output error"))
    written = log.write_snapshot(end_offset=1, epoch=1, values=[b"x"], last_contained_timestamp_ms=0)
    assert isinstance(written.error, OSError)
    assert any(name.endswith(".part") for name in virtual.files.list_directory(DIRECTORY))
    log.close()
    open_log(virtual)
    assert not any("checkpoint" in name and "epoch" not in name for name in virtual.files.list_directory(DIRECTORY))


def test_a_damaged_snapshot_is_refused() -> None:
    virtual = a_world()
    log = open_log(virtual)
    written = log.write_snapshot(end_offset=1, epoch=1, values=[b"x"], last_contained_timestamp_ms=0)
    path = f"{DIRECTORY}/{written.result().file_name}"
    log.close()
    sound = bytes(memory(virtual).nodes[path].data)
    memory(virtual).corrupt(path, len(sound) // 2, 1)
    with pytest.raises(MetadataLogDamagedError):
        open_log(virtual)
    memory(virtual).nodes[path].data[:] = sound[:-10]
    with pytest.raises(MetadataLogDamagedError, match="no footer"):
        read_snapshot(virtual.files, path)


def test_a_log_without_its_beginning_needs_a_snapshot() -> None:
    virtual = a_world()
    log = open_log(virtual, MetadataLogSettings(segment_bytes=100))
    for number in range(5):
        log.append([b"value %d" % number])
    log.close()
    virtual.files.remove(FIRST_SEGMENT)
    with pytest.raises(MetadataLogDamagedError, match="no snapshot"):
        open_log(virtual)


def test_the_log_of_a_larger_quorum_is_refused() -> None:
    virtual = a_world()
    open_log(virtual).close()
    write_quorum_state(virtual.files, DIRECTORY, QuorumState(leader_id=2, leader_epoch=5, voters=(1, 2, 3)))
    with pytest.raises(MetadataLogUnsupportedError, match=r"\[1, 2, 3\]"):
        open_log(virtual)


@pytest.mark.parametrize(
    "state",
    [
        QuorumState(leader_id=3, leader_epoch=7, voted_id=-1, voters=(1, 2, 3)),
        QuorumState(
            leader_id=-1, leader_epoch=7, voted_id=2, voted_directory_id=Uuid(b"0123456789abcdef"), data_version=1
        ),
    ],
)
def test_quorum_state_reads_as_it_was_written(state: QuorumState) -> None:
    files = MemoryFiles()
    files.make_directories("/data")
    write_quorum_state(files, "/data", state)
    assert read_quorum_state(files, "/data") == state


def test_quorum_state_that_cannot_be_read_is_refused() -> None:
    files = MemoryFiles()
    files.make_directories("/data")
    files.write_atomically("/data/quorum-state", b'{"leaderId": 1')
    with pytest.raises(MetadataLogDamagedError):
        read_quorum_state(files, "/data")


def test_a_region_holds_whole_committed_batches() -> None:
    virtual = a_world(immediate=False)
    log = open_log(virtual)
    for number in range(5):
        log.append([b"value %d" % number])
    virtual.workers.run_all()
    pending: Deferred[int] = log.append([b"uncommitted"])
    assert not pending.done
    everything = log.region(0, max_bytes=1 << 20)
    assert everything is not None
    uncommitted_bytes = log.size_bytes - len(everything)
    assert uncommitted_bytes > 0
    first = log.region(1, max_bytes=1)
    assert first is not None
    assert b"value 0" in first.read()
    assert b"value 1" not in first.read()
    assert log.region(6, max_bytes=1 << 20) is None


def test_batches_larger_than_a_read_are_read() -> None:
    virtual = a_world()
    log = open_log(virtual)
    large = [bytes([number]) * 700_000 for number in range(4)]
    log.append(large)
    log.append([b"after"])
    log.close()
    assert values_of(open_log(virtual)) == [*large, b"after"]
