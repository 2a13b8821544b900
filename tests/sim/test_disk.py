"""The data that a simulated power loss takes, and the data that it leaves."""

from __future__ import annotations

import errno
from random import Random

import pytest

from ottla.sim.disk import SimDisk
from ottla.sim.files import SimFiles
from ottla.sim.kernel import Kernel
from ottla.sim.process import ProcessKilled


def files_on(disk: SimDisk) -> SimFiles:
    return SimFiles(Kernel(0), disk)


def outcomes(*, syncs_file: bool, syncs_directory: bool) -> set[bytes | None]:
    """Everything that may be left of a file after a power loss, over many chances."""
    contents: set[bytes | None] = set()
    for seed in range(200):
        disk = SimDisk(Random(seed))
        files = files_on(disk)
        files.make_directories("/d")
        disk.root.sync()
        file = files.open("/d/f")
        file.append(b"a" * 512)
        file.append(b"b" * 512)
        if syncs_file:
            file.sync()
        if syncs_directory:
            files.sync_directory("/d")
        disk.lose_power()
        again = files_on(disk)
        contents.add(again.read_bytes("/d/f") if again.exists("/d/f") else None)
    return contents


def test_what_is_synced_with_its_name_stays() -> None:
    assert outcomes(syncs_file=True, syncs_directory=True) == {b"a" * 512 + b"b" * 512}


def test_a_synced_file_without_a_synced_name_may_be_gone() -> None:
    assert outcomes(syncs_file=True, syncs_directory=False) == {b"a" * 512 + b"b" * 512, None}


def test_unsynced_writes_may_be_gone_torn_or_out_of_order() -> None:
    contents = outcomes(syncs_file=False, syncs_directory=True)
    assert {b"", b"a" * 512, b"a" * 512 + b"b" * 512, bytes(512) + b"b" * 512} <= contents


def test_a_rename_is_all_or_nothing() -> None:
    seen = set()
    for seed in range(100):
        disk = SimDisk(Random(seed))
        files = files_on(disk)
        files.make_directories("/d")
        disk.root.sync()
        files.write_atomically("/d/f", b"old")
        files.write_atomically("/d/f", b"new", durable=False)
        disk.lose_power()
        seen.add(files_on(disk).read_bytes("/d/f"))
    # The name may be new and the bytes not there yet: that is what an fsync before the rename is for.
    assert b"old" in seen
    assert seen <= {b"old", b"new", b""}


def test_a_killed_process_loses_nothing_and_changes_nothing_afterwards() -> None:
    disk = SimDisk(Random(1))
    files = files_on(disk)
    file = files.open("/f")
    file.append(b"kept")
    disk.changes_until_kill = 1
    with pytest.raises(ProcessKilled):
        file.append(b"never")
    with pytest.raises(ProcessKilled):
        file.append(b"never either")
    assert files_on(disk).read_bytes("/f") == b"kept"


def test_a_full_disk_refuses_and_keeps_the_file_whole() -> None:
    disk = SimDisk(Random(1))
    file = files_on(disk).open("/f")
    file.append(b"kept")
    disk.is_full = True
    with pytest.raises(OSError) as refused:
        file.append(b"too much")
    assert refused.value.errno == errno.ENOSPC
    assert file.read(0, 100) == b"kept"


def test_a_slow_disk_keeps_a_task_for_a_minute_at_most() -> None:
    disk = SimDisk(Random(1))
    disk.sync_us = (5_000_000, 5_000_001)
    file = files_on(disk).open("/f")
    for syncs, seconds in ((2, 10), (100, 60)):
        for _ in range(syncs):
            file.append(b"x")
            file.sync()
        assert disk.take_busy_us() == seconds * 1_000_000
    assert disk.take_busy_us() == 0


def test_a_disk_that_is_not_mounted_keeps_its_files() -> None:
    disk = SimDisk(Random(1))
    files = files_on(disk)
    files.make_directories("/data")
    files.write_atomically("/data/a", b"old")
    disk.unmount("data")
    assert disk.is_unmounted
    assert files.list_directory("/data") == []
    files.write_atomically("/data/b", b"new")
    # Neither the mount point nor the disk on the shelf is touched by a power loss.
    disk.lose_power()
    assert files.list_directory("/data") == ["b"]
    disk.is_mounted_again_at_end = True
    disk.on_process_ended()
    assert not disk.is_unmounted
    assert files.list_directory("/data") == ["a"]
