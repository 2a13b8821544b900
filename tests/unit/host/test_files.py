"""The operating system's files behind the port."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.host import files as host_files
from ottla.host import reserving
from ottla.host.files import OsFile, OsFiles
from ottla.host.reserving import GROWN_BYTES, NO_END, STEP_BYTES, STEP_BYTES_MAX, room_for
from ottla.model.ports import DirectoryLocked, File, TruncatedFile
from ottla.records.build import build_batch
from ottla.records.header import read_header
from ottla.records.record import Record
from ottla.storage.open_files import OpenFiles
from ottla.storage.segment import Segment


@pytest.fixture
def files() -> OsFiles:
    return OsFiles()


def test_append_returns_the_position_and_grows_the_size(files: OsFiles, tmp_path: Path) -> None:
    file = files.open(str(tmp_path / "a"))
    assert file.append(b"abc") == 0
    assert file.append(bytearray(b"de")) == 3
    assert file.append(memoryview(b"fgh")) == 5
    assert file.size == 8
    assert file.read(1, 100) == b"bcdefgh"
    assert files.read_bytes(str(tmp_path / "a")) == b"abcdefgh"


def test_reopened_file_continues_at_its_end(files: OsFiles, tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    files.open(path).append(b"abc")
    assert files.open(path, create=False).append(b"d") == 3
    with pytest.raises(FileNotFoundError):
        files.open(str(tmp_path / "missing"), create=False)


def test_a_refused_append_leaves_nothing_behind(
    files: OsFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = files.open(str(tmp_path / "a"))
    file.append(b"kept")
    real_pwrite = os.pwrite
    calls = []

    def half_then_full(descriptor: int, data: bytes, position: int) -> int:
        calls.append(len(data))
        if len(calls) > 2:
            raise OSError(errno.ENOSPC, "full")
        return real_pwrite(descriptor, memoryview(data)[:2], position)

    monkeypatch.setattr(os, "pwrite", half_then_full)
    with pytest.raises(OSError, match="full"):
        file.append(b"0123456789")
    monkeypatch.undo()
    assert file.size == 4
    assert (tmp_path / "a").read_bytes() == b"kept"
    assert file.append(b"!") == 4


def test_a_short_write_is_completed(files: OsFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = files.open(str(tmp_path / "a"))
    real_pwrite = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, position: real_pwrite(fd, memoryview(data)[:3], position))
    file.append(b"0123456789")
    assert (tmp_path / "a").read_bytes() == b"0123456789"


def test_nothing_is_appended_to_a_file_that_another_program_has_truncated(files: OsFiles, tmp_path: Path) -> None:
    file = files.open(str(tmp_path / "a"))
    file.append(b"0123456789")
    os.truncate(tmp_path / "a", 7)
    with pytest.raises(TruncatedFile, match="lost bytes from position 7 to 10"):
        file.append(b"abc")
    assert (tmp_path / "a").read_bytes() == b"0123456"


def test_read_nowait_of_what_was_just_written(files: OsFiles, tmp_path: Path) -> None:
    file = files.open(str(tmp_path / "a"))
    file.append(b"abc")
    assert file.read_nowait(1, 2) == b"bc"
    assert file.read_nowait(1, 20) == b"bc"


def test_the_kernel_reads_nothing_ahead_by_itself(
    files: OsFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    advised: list[tuple[int, ...]] = []
    monkeypatch.setattr(host_files, "_ADVISE", lambda *advice: advised.append(advice))
    file = files.open(str(tmp_path / "a"))
    assert advised == [(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)]


def test_who_reads_from_front_to_back_requests_more_ahead(
    files: OsFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = files.open(str(tmp_path / "a"))
    ahead: list[tuple[int, int]] = []
    monkeypatch.setattr(host_files, "_ADVISE", lambda _, position, length, __: ahead.append((position, length)))

    def requested_by(position: int, length: int) -> list[tuple[int, int]]:
        ahead.clear()
        file.read(position, length)
        return ahead

    assert requested_by(0, 1000) == []
    assert requested_by(1000, 500) == [(1500, 2000)]
    # The last batch of the chunk before was cut off, and is read again.
    assert requested_by(1400, 1 << 20) == [(1400 + (1 << 20), 2 << 20)]
    for elsewhere in (5 << 20, 1 << 20, 1 << 20):
        assert requested_by(elsewhere, 1000) == []


def test_a_kernel_that_takes_no_advice_reads_all_the_same(
    files: OsFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(host_files, "_ADVISE", refuse)
    file = files.open(str(tmp_path / "a"))
    file.append(b"abcdef")
    assert file.read(0, 3) == b"abc"
    assert file.read(3, 3) == b"def"


def test_preallocated_space_does_not_move_the_end(files: OsFiles, tmp_path: Path) -> None:
    file = files.open(str(tmp_path / "a"))
    file.preallocate(8192)
    assert (tmp_path / "a").stat().st_size == 8192
    assert file.append(b"abc") == 0
    file.truncate(file.size)
    assert (tmp_path / "a").read_bytes() == b"abc"


def kept_bytes(path: Path) -> int:
    """What the file occupies beyond its length."""
    status = path.stat()
    return status.st_blocks * 512 - status.st_size


def grown_file(files: OsFiles, path: Path) -> File:
    file = files.open(str(path))
    for _ in range(GROWN_BYTES // (1 << 20) + 1):
        file.append(b"a" * (1 << 20))
    return file


def test_a_file_that_grows_keeps_room_and_gives_it_back(files: OsFiles, tmp_path: Path) -> None:
    path = tmp_path / "a"
    file = grown_file(files, path)
    size = file.size
    assert path.stat().st_size == size
    if room_for(file.fileno(), size) == NO_END:
        pytest.skip("this file system keeps no room")
    assert kept_bytes(path) >= STEP_BYTES
    file.trim()
    assert kept_bytes(path) < STEP_BYTES // 2
    assert file.append(b"b" * (STEP_BYTES + 1)) == size
    assert file.size == path.stat().st_size == size + STEP_BYTES + 1
    # Again, left behind by a process that was killed: the next process that opens the file releases the room.
    assert kept_bytes(path) >= STEP_BYTES // 2
    file.close()
    reopened = files.open(str(path))
    reopened.trim()
    assert kept_bytes(path) < STEP_BYTES // 2
    assert reopened.read(size - 1, 2) == b"ab"


def test_the_larger_a_file_the_more_room_it_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    reserved = []
    monkeypatch.setattr(reserving, "_fallocate", lambda: lambda *arguments: reserved.append(arguments[2:]) or 0)
    for end in (1, GROWN_BYTES, 4 * GROWN_BYTES, 1000 * GROWN_BYTES):
        assert room_for(0, end) == sum(reserved[-1])
    steps = [STEP_BYTES, STEP_BYTES, 4 * STEP_BYTES, STEP_BYTES_MAX]
    assert reserved == list(zip((1, GROWN_BYTES, 4 * GROWN_BYTES, 1000 * GROWN_BYTES), steps, strict=True))


def test_a_small_file_keeps_no_room(files: OsFiles, tmp_path: Path) -> None:
    file = files.open(str(tmp_path / "a"))
    file.append(b"a" * GROWN_BYTES)
    assert kept_bytes(tmp_path / "a") < STEP_BYTES // 2


def test_room_that_is_refused_stops_no_append(files: OsFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full but for what is being written, or the file system knows no such thing."""
    reserved = []
    monkeypatch.setattr(reserving, "_fallocate", lambda: lambda *arguments: reserved.append(arguments) or -1)
    file = grown_file(files, tmp_path / "a")
    assert file.append(b"b" * STEP_BYTES) == file.size - STEP_BYTES
    assert len(reserved) == 1
    file.trim()
    assert (tmp_path / "a").stat().st_size == file.size


def test_room_that_cannot_be_given_back_is_kept(
    files: OsFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = grown_file(files, tmp_path / "a")

    def refuse(*_: object) -> None:
        raise OSError(errno.EIO, "the disk is gone")

    with monkeypatch.context() as patched:
        patched.setattr(os, "ftruncate", refuse)
        file.trim()
    assert file.append(b"b") == file.size - 1


def test_an_abandoned_file_closes_its_descriptor(files: OsFiles, tmp_path: Path) -> None:
    file: OsFile | None = OsFile(str(tmp_path / "a"), create=True)
    assert file is not None
    descriptor = file.fileno()
    file = None
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_write_atomically_replaces_the_whole_file(files: OsFiles, tmp_path: Path) -> None:
    path = str(tmp_path / "a")
    files.write_atomically(path, b"first, and longer")
    files.write_atomically(path, b"second", durable=False)
    assert files.read_bytes(path) == b"second"
    assert files.list_directory(str(tmp_path)) == ["a"]


def test_a_lock_is_held_once(files: OsFiles, tmp_path: Path) -> None:
    lock = files.lock(str(tmp_path / ".lock"))
    with pytest.raises(DirectoryLocked):
        files.lock(str(tmp_path / ".lock"))
    lock.release()
    files.lock(str(tmp_path / ".lock")).release()


def test_remove_tree_and_directory_questions(files: OsFiles, tmp_path: Path) -> None:
    path = str(tmp_path / "d" / "e")
    files.make_directories(path)
    files.open(path + "/f").append(b"x")
    assert files.is_directory(path)
    assert not files.is_directory(path + "/f")
    assert not files.is_directory(path + "/g")
    assert files.size_of(path + "/f") == 1
    assert files.modified_ms(path + "/f") > 0
    files.remove_tree(str(tmp_path / "d"))
    assert not files.exists(str(tmp_path / "d"))
    total, usable = files.free_bytes(str(tmp_path))
    assert 0 < usable <= total


def test_a_process_may_open_as_many_files_as_its_hard_limit_allows() -> None:
    program = (
        "import resource\n"
        "from ottla.host.files import raise_open_files_limit\n"
        "_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, min(900, hard)))\n"
        "print(raise_open_files_limit(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["900", "900"]


def test_a_segment_gives_its_room_back_with_its_last_append(files: OsFiles, tmp_path: Path) -> None:
    batch = build_batch([Record(value=b"a" * 1_000_000, timestamp=1)])
    for number, end in enumerate((Segment.close_for_appends, Segment.close, Segment.release)):
        segment = Segment.create(str(tmp_path), number, OpenFiles(files, limit=10), now_ms=1)
        while segment.size <= GROWN_BYTES:
            segment.append(batch, [read_header(memoryview(batch))], index_interval_bytes=4096, now_ms=1)
        end(segment)
        assert kept_bytes(Path(segment.path)) < STEP_BYTES // 2, end
        assert Path(segment.path).stat().st_size == segment.size
        segment.close()


def test_a_stamp_changes_with_the_content_and_with_the_names_in_a_directory(tmp_path: Path) -> None:
    files, directory, path = OsFiles(), str(tmp_path), str(tmp_path / "a")
    assert files.stamp_of(path) == -1
    file = files.open(path)
    stamps = [files.stamp_of(path)]
    assert stamps == [files.stamp_of(path)]
    for data in (b"x", b"y"):
        file.append(data)
        stamps.append(files.stamp_of(path))
    assert len({-1, *stamps}) == 4
    # The clock of the file system stands still for some milliseconds.
    before, number = files.stamp_of(directory), 0
    while files.stamp_of(directory) == before:
        number += 1
        files.open(f"{directory}/{number}")


def test_a_stamp_is_the_same_in_another_process(tmp_path: Path) -> None:
    stamp = OsFiles().stamp_of(str(tmp_path))
    script = f"from ottla.host.files import OsFiles; print(OsFiles().stamp_of({str(tmp_path)!r}))"
    assert int(subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout) == stamp
