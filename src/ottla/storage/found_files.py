"""The files in a partition's directory, when its log is opened.

Unfinished work of the cleaner: `.cleaned` files were incomplete and are removed. `.swap` files were complete, so the
replacement is finished: they replace the original segments.

A log file that is missing leaves traces: its indexes, its producer snapshot, or a recovery point behind the end.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ottla.model.ports import Files, World
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.names import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LEADER_EPOCH_FILE,
    LOG_SUFFIX,
    REPAIRED_SUFFIX,
    SEGMENT_SUFFIXES,
    SWAP_SUFFIX,
    TEMPORARY_SUFFIX,
    offset_file_name,
    offset_of_file,
)
from ottla.storage.open_files import OpenFiles
from ottla.storage.scan import scan_checked
from ottla.storage.segment import Segment

__all__ = ["FoundFiles", "find_files"]

_PRIVATE_OPEN_FILES_MAX = 64
_FIRST_SEGMENT_FILES = frozenset(offset_file_name(0, suffix) for suffix in SEGMENT_SUFFIXES)


class FoundFiles(NamedTuple):
    """`segments` have a log file. `pool` has their open files."""

    names: set[str]
    segments: list[Segment]
    unfinished: set[int]
    """Offsets of segments whose deletion was not finished."""
    missing: set[int]
    """Offsets of segments whose log file was removed: their indexes are there."""
    damaged: dict[int, str]
    """Offsets of closed segments that have lost their records or their log file, with the damage."""
    had_log_file: bool
    directory: str
    pool: OpenFiles
    now_ms: int

    def load_epochs(self) -> LeaderEpochs:
        files = self.pool.files
        if LEADER_EPOCH_FILE in self.names:
            return LeaderEpochs.load(files, self.directory)
        return LeaderEpochs(files, self.directory)

    def use_pool(self, pool: OpenFiles) -> None:
        """Moves the files of the opened log to the pool of all open files of the node."""
        for segment in self.segments:
            segment.use_pool(pool)

    def begin_segment(self, base_offset: int) -> None:
        """Adds an empty segment at the offset, after all other segments.

        The name of its file marks the end of the log. Without a file the log ends at 0.
        """
        if base_offset == 0 and not self.names & _FIRST_SEGMENT_FILES:
            self.segments.append(Segment(self.directory, 0, self.pool, size=0, created_ms=self.now_ms, is_new=True))
        else:
            self.segments.append(Segment.create(self.directory, base_offset, self.pool, now_ms=self.now_ms))

    def known_end(
        self, end_offset: int, recovery_point: int, snapshots: Collection[int], *, is_clean: bool, is_damaged: bool
    ) -> int:
        """An offset that the log had reached, as far as the files show.

        Without damage the recovery point may be that of a truncated log, or of a deleted topic of the same name, if a
        crash came before the checkpoint was written.
        """
        if is_clean:
            return max(recovery_point, *self.missing, *snapshots, 0)
        # A roll creates the log file before the snapshot of the same offset, and a truncation removes both.
        is_cut = any(offset >= end_offset for offset in self.unfinished)
        misses_last = end_offset in snapshots and self.segments[-1].base_offset != end_offset and not is_cut
        if is_damaged or misses_last or any(offset >= end_offset for offset in self.missing):
            return max(recovery_point, *self.missing, 0)
        return end_offset


def find_files(
    world: World, directory: str, log_start_offset: int, *, may_have_gaps: bool, listed: Collection[str] | None = None
) -> FoundFiles:
    files, now_ms = world.files, world.clock.now_ms()
    # May run on a worker, so the node's pool is not used yet.
    pool = OpenFiles(files, limit=_PRIVATE_OPEN_FILES_MAX)
    if listed is None:
        try:
            listed = files.list_directory(directory)
        except FileNotFoundError:
            files.make_directories(directory)
            listed = ()
    names, unfinished = _finish_interrupted_work(files, directory, set(listed))
    segments, orphans = _list_segments(files, directory, names, pool, now_ms)
    # A crash while a segment is deleted leaves indexes without their log file.
    missing = {offset for name in orphans if (offset := offset_of_file(name)) is not None} - unfinished
    had_log_file = bool(segments)
    if orphans:
        _replace_missing(directory, segments, orphans, missing, log_start_offset, pool, now_ms)
    damaged = {
        segment.base_offset: "its log file is missing or empty"
        for segment in segments[:-1]
        # Compaction may leave an empty segment.
        if segment.size == 0 and (not may_have_gaps or segment.indexes.has_entries_on_disk(files))
    }
    return FoundFiles(names, segments, unfinished, missing, damaged, had_log_file, directory, pool, now_ms)


def _replace_missing(
    directory: str,
    segments: list[Segment],
    orphans: list[str],
    missing: set[int],
    log_start_offset: int,
    pool: OpenFiles,
    now_ms: int,
) -> None:
    """Creates empty log files for missing ones within the log.

    Their indexes are kept: by them a later start knows that the segment was not empty. Other indexes without a log file
    are removed. A segment that is missing at the end of the log is not replaced: see `FoundFiles.known_end`.
    """
    end = segments[-1].base_offset if segments else 0
    for name in orphans:
        base_offset = offset_of_file(name)
        assert base_offset is not None
        if not (log_start_offset <= base_offset < end and base_offset in missing):
            pool.files.remove(f"{directory}/{name}")
        elif all(segment.base_offset != base_offset for segment in segments):
            segment = Segment(directory, base_offset, pool, size=0, created_ms=now_ms)
            pool.files.open(segment.path)
            segments.append(segment)
    segments.sort(key=lambda segment: segment.base_offset)


def _list_segments(
    files: Files, directory: str, names: set[str], pool: OpenFiles, now_ms: int
) -> tuple[list[Segment], list[str]]:
    """The segments that have a log file, and the names of indexes without a log file."""
    segments: list[Segment] = []
    orphans: list[str] = []
    for name in sorted(names):
        offset = offset_of_file(name)
        if offset is None:
            continue
        if name.endswith(LOG_SUFFIX):
            path = f"{directory}/{name}"
            segment = Segment(
                directory,
                offset,
                pool,
                size=files.size_of(path),
                created_ms=now_ms,
                modified_ms=files.modified_ms(path),
            )
            segments.append(segment)
        elif name.endswith(SEGMENT_SUFFIXES) and offset_file_name(offset, LOG_SUFFIX) not in names:
            orphans.append(name)
    return segments, orphans


def _finish_interrupted_work(files: Files, directory: str, names: set[str]) -> tuple[set[str], set[int]]:
    """Removes deleted and unfinished files, and completes replacements.

    Returns the remaining names, and the offsets of segments whose deletion was not finished. Files of other programs
    stay, and are not returned.
    """
    swaps: list[int] = []
    unfinished: set[int] = set()
    # Done before the `.cleaned` log files, which distinguish these indexes from those of a nearly finished replacement.
    _remove_begun_swaps(files, directory, names)
    for name in sorted(names):
        if not name.endswith((DELETED_SUFFIX, CLEANED_SUFFIX, SWAP_SUFFIX, TEMPORARY_SUFFIX)):
            continue
        offset = offset_of_file(name)
        if files.is_directory(f"{directory}/{name}") or (offset is None and name.endswith(SWAP_SUFFIX)):
            names.discard(name)
        elif not name.endswith(SWAP_SUFFIX):
            files.remove(f"{directory}/{name}")
            names.discard(name)
            if offset is not None:
                unfinished.add(offset)
        elif offset is not None and name == offset_file_name(offset, LOG_SUFFIX) + SWAP_SUFFIX:
            swaps.append(offset)
    for offset in swaps:
        private = OpenFiles(files, limit=_PRIVATE_OPEN_FILES_MAX)
        path = f"{directory}/{offset_file_name(offset, LOG_SUFFIX)}{SWAP_SUFFIX}"
        swap = Segment(directory, offset, private, size=files.size_of(path), created_ms=0, suffix=SWAP_SUFFIX)
        end = max((batch.header.next_offset for batch in scan_checked(swap.file, 0, swap.size)), default=offset + 1)
        for name in sorted(names):
            old = offset_of_file(name)
            if old is not None and offset <= old < end and name.endswith(SEGMENT_SUFFIXES):
                files.remove(f"{directory}/{name}")
                names.discard(name)
        swap.discard()
        for kind in SEGMENT_SUFFIXES:
            name = offset_file_name(offset, kind)
            if name + SWAP_SUFFIX in names:
                files.rename(f"{directory}/{name}{SWAP_SUFFIX}", f"{directory}/{name}")
                names.discard(name + SWAP_SUFFIX)
                names.add(name)
    _place_rest_of_swaps(files, directory, names)
    return names, unfinished


def _remove_begun_swaps(files: Files, directory: str, names: set[str]) -> None:
    """Removes indexes that have become `.swap` before their log file, which is still `.cleaned`."""
    for name in sorted(names):
        offset = offset_of_file(name)
        if offset is not None and name.endswith(SWAP_SUFFIX):
            log_name = offset_file_name(offset, LOG_SUFFIX)
            is_begun = log_name + CLEANED_SUFFIX in names or log_name + REPAIRED_SUFFIX in names
            if is_begun and log_name + SWAP_SUFFIX not in names:
                files.remove(f"{directory}/{name}")
                names.discard(name)


def _place_rest_of_swaps(files: Files, directory: str, names: set[str]) -> None:
    """Renames indexes whose log file was put in place just before a crash, or before a start that failed.

    Offset and time index could be rebuilt, the index of aborted transactions could not.
    """
    for name in sorted(names):
        if not name.endswith(SWAP_SUFFIX):
            continue
        offset, target = offset_of_file(name), name.removesuffix(SWAP_SUFFIX)
        names.discard(name)
        if offset is not None and offset_file_name(offset, LOG_SUFFIX) in names:
            files.rename(f"{directory}/{name}", f"{directory}/{target}")
            names.add(target)
        else:
            files.remove(f"{directory}/{name}")
