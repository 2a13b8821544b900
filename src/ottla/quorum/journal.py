"""The segments of the metadata log: record batches in order, on the Files port.

The metadata log differs from other partitions: it has no producers, no time index and no retention by age of its own,
it is read completely on start, and an entry is fsynced before it counts. This small class therefore replaces a
`PartitionLog`; the names and bytes of the files are the same.

On opening, every batch is checked. A torn last batch, as a crash leaves it, is truncated: it was never acknowledged. A
damaged batch with an intact batch after it is not the effect of a crash but of a failing disk (or, rarely, of a power
loss between two fsyncs), and acknowledged entries might be lost. Opening then fails and names the position.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from ottla.model.ports import File, FileRegion, Files
from ottla.quorum.errors import MetadataLogDamagedError
from ottla.records.errors import CorruptRecords
from ottla.records.header import BATCH_LENGTH_POSITION, HEADER_SIZE, LENGTH_OVERHEAD
from ottla.records.iterate import Batch, iterate_batches, verify_checksum
from ottla.storage.names import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX, offset_file_name, offset_of_file

__all__ = ["Journal"]

# The bytes of one read, and the distance between remembered positions, which take 16 bytes each.
_READ_BYTES = 1 << 20
_INDEX_INTERVAL_BYTES = 1 << 16
# The size of the largest valid batch: a controller writes at most 32 MiB, and Kafka's leader closes a batch at 8 MiB.
_BATCH_BYTES_MAX = 128 << 20


class Segment:
    """One segment file, and the positions of some of its batches."""

    __slots__ = ("base_offset", "end_offset", "file", "first_timestamp_ms", "offsets", "positions")

    def __init__(self, base_offset: int, file: File) -> None:
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.file = file
        self.first_timestamp_ms = -1
        self.offsets: list[int] = []
        self.positions: list[int] = []

    def added(self, *, base_offset: int, end_offset: int, position: int, timestamp_ms: int) -> None:
        if not self.positions or position - self.positions[-1] >= _INDEX_INTERVAL_BYTES:
            self.offsets.append(base_offset)
            self.positions.append(position)
        if self.first_timestamp_ms < 0:
            self.first_timestamp_ms = timestamp_ms
        self.end_offset = end_offset

    def position_before(self, offset: int) -> int:
        """The position of a batch at or before the batch with this offset."""
        index = bisect_right(self.offsets, offset) - 1
        return self.positions[index] if index >= 0 else 0


class Journal:
    """Appends and reads whole batches. Entries are durable only after the `unsynced` files were synced."""

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._segments: list[Segment] = []
        self.unsynced: list[File] = []
        # Files in use by a worker. They are closed only after the worker is done, even if their segments are deleted.
        self._syncing: list[File] = []
        self._obsolete: list[File] = []
        # True if the directory has to be synced for the name of a new segment.
        self.has_new_names = False
        # The epoch of the newest batch; -1 without one.
        self.last_epoch = -1
        # The bytes that opening has truncated, for the log line.
        self.cut_bytes = 0
        if not files.is_directory(directory):
            files.make_directories(directory)
            # The name of the directory must survive a power loss, too.
            files.sync_directory(directory.rpartition("/")[0])
        bases = sorted(
            offset
            for name in files.list_directory(directory)
            if name.endswith(LOG_SUFFIX) and (offset := offset_of_file(name)) is not None
        )
        for base_offset in bases:
            self._open_segment(base_offset, is_last=base_offset == bases[-1])
        if self._segments:
            # A killed process may have left entries that are only in the page cache. They count as written from here
            # on, so they must survive a power loss. A segment may have been full before its last fsync.
            for segment in self._segments:
                segment.file.sync()
            files.sync_directory(directory)

    @property
    def start_offset(self) -> int:
        return self._segments[0].base_offset if self._segments else 0

    @property
    def end_offset(self) -> int:
        return self._segments[-1].end_offset if self._segments else 0

    @property
    def size_bytes(self) -> int:
        return sum(segment.file.size for segment in self._segments)

    @property
    def active_size_bytes(self) -> int:
        return self._segments[-1].file.size if self._segments else 0

    @property
    def active_first_timestamp_ms(self) -> int:
        """The time of the first batch in the active segment; -1 without one."""
        return self._segments[-1].first_timestamp_ms if self._segments else -1

    def append(self, batch: bytearray, *, record_count: int, epoch: int, timestamp_ms: int) -> int:
        """Writes one batch that starts at `end_offset`, completely or not at all; returns the new end offset."""
        if not self._segments:
            self.roll(0)
        segment = self._segments[-1]
        base_offset = segment.end_offset
        position = segment.file.append(batch)
        segment.added(
            base_offset=base_offset,
            end_offset=base_offset + record_count,
            position=position,
            timestamp_ms=timestamp_ms,
        )
        if segment.file not in self.unsynced:
            self.unsynced.append(segment.file)
        self.last_epoch = epoch
        return segment.end_offset

    def roll(self, base_offset: int | None = None) -> None:
        """Starts a new segment at the end, or at the given offset in an empty log."""
        base = self.end_offset if base_offset is None else base_offset
        file = self._files.open(f"{self._directory}/{offset_file_name(base, LOG_SUFFIX)}")
        self._segments.append(Segment(base, file))
        self.has_new_names = True

    def start_at(self, offset: int) -> None:
        """Deletes all entries: a snapshot covers more than the log, which starts again after it.

        The newest segment goes first, so that a crash leaves no log that starts after the snapshot.
        """
        while self._segments:
            self._remove(self._segments.pop())
        self.last_epoch = -1
        self.roll(offset)

    def truncate_to(self, offset: int) -> None:
        """Truncates every batch that contains the offset or a later one. The log then ends at or before the offset."""
        if offset >= self.end_offset:
            return
        segment_count = len(self._segments)
        while len(self._segments) > 1 and self._segments[-1].base_offset >= offset:
            self._remove(self._segments.pop())
        if len(self._segments) < segment_count:
            # Synced before the last segment changes: a power loss must not restore a segment that no longer follows it.
            self._files.sync_directory(self._directory)
        if self._segments[-1].end_offset > offset:
            self._shorten(self._segments[-1], offset)
        self.last_epoch = -1
        for batch in self.batches(self.start_offset):
            self.last_epoch = batch.header.leader_epoch

    def _shorten(self, segment: Segment, offset: int) -> None:
        shortened = Segment(segment.base_offset, segment.file)
        size = 0
        for batch in _batches(segment.file, 0, segment.file.size):
            header = batch.header
            if header.next_offset > offset:
                break
            shortened.added(
                base_offset=header.base_offset,
                end_offset=header.next_offset,
                position=batch.position,
                timestamp_ms=header.max_timestamp,
            )
            size = batch.position + header.size
        segment.file.truncate(size)
        self._segments[-1] = shortened
        if segment.file not in self.unsynced:
            self.unsynced.append(segment.file)

    def delete_before(self, offset: int) -> None:
        """Deletes segments that end at or before the offset, except the active one."""
        while len(self._segments) > 1 and self._segments[0].end_offset <= offset:
            self._remove(self._segments.pop(0))

    def batches(self, from_offset: int) -> Iterator[Batch]:
        """The batches from the one that contains `from_offset` to the current end."""
        for segment in list(self._segments):
            if segment.end_offset <= from_offset:
                continue
            for batch in _batches(segment.file, segment.position_before(from_offset), segment.file.size):
                if batch.header.next_offset > from_offset:
                    yield batch

    def region(self, from_offset: int, *, end_offset: int, max_bytes: int) -> FileRegion | None:
        """The bytes of whole batches in one segment, at least one batch; None if there is none."""
        for segment in self._segments:
            if segment.base_offset <= from_offset < segment.end_offset:
                break
        else:
            return None
        start = end = -1
        for batch in _batches(segment.file, segment.position_before(from_offset), segment.file.size):
            header = batch.header
            if header.next_offset <= from_offset:
                continue
            if header.base_offset >= end_offset or (start >= 0 and batch.position + header.size - start > max_bytes):
                break
            if start < 0:
                start = batch.position
            end = batch.position + header.size
        return None if start < 0 else FileRegion(segment.file, start, end - start)

    def sync_active(self) -> None:
        """Syncs the last segment. Blocks."""
        if self._segments:
            self._segments[-1].file.sync()

    @property
    def not_durable(self) -> list[File]:
        """The files with entries that no fsync has covered, also those for which one is in flight."""
        return [*self._syncing, *self.unsynced]

    def begin_sync(self) -> tuple[bool, list[File]]:
        """Whether to sync the directory, and the files to sync now; `end_sync` must follow."""
        has_new_names, self.has_new_names = self.has_new_names, False
        self._syncing, self.unsynced = self.unsynced, []
        return has_new_names, self._syncing

    def end_sync(self) -> None:
        self._syncing = []
        for file in self._obsolete:
            file.close()
        self._obsolete = []

    def close(self) -> None:
        for segment in self._segments:
            segment.file.close()

    def _remove(self, segment: Segment) -> None:
        if segment.file in self._syncing:
            self._obsolete.append(segment.file)
        else:
            segment.file.close()
        if segment.file in self.unsynced:
            self.unsynced.remove(segment.file)
        # Apache Kafka also writes index files.
        for suffix in (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX):
            path = f"{self._directory}/{offset_file_name(segment.base_offset, suffix)}"
            if self._files.exists(path):
                self._files.remove(path)

    def _open_segment(self, base_offset: int, *, is_last: bool) -> None:
        path = f"{self._directory}/{offset_file_name(base_offset, LOG_SUFFIX)}"
        if self._segments and self._segments[-1].end_offset != base_offset:
            raise MetadataLogDamagedError(
                f"{path} starts at offset {base_offset}, but the segment before it ends at {self.end_offset}"
            )
        file = self._files.open(path, create=False)
        segment = Segment(base_offset, file)
        self._segments.append(segment)
        sound = 0
        try:
            for batch in _batches(file, 0, file.size):
                header = batch.header
                if not verify_checksum(batch.view, header) or header.base_offset != segment.end_offset:
                    break
                segment.added(
                    base_offset=header.base_offset,
                    end_offset=header.next_offset,
                    position=batch.position,
                    timestamp_ms=header.max_timestamp,
                )
                self.last_epoch = header.leader_epoch
                sound = batch.position + header.size
        except CorruptRecords:
            pass
        if sound == file.size:
            return
        if not is_last or self._sound_batch_after(file, sound, segment.end_offset):
            raise MetadataLogDamagedError(
                f"{path} is damaged at byte {sound} (offset {segment.end_offset}), with intact entries after it; "
                "a crash does not cause this, so nothing was truncated: restore the file or the whole directory"
            )
        self.cut_bytes = file.size - sound
        file.truncate(sound)
        self.unsynced.append(file)

    def _sound_batch_after(self, file: File, position: int, offset: int) -> bool:
        """True if the bytes after a damaged batch contain an intact batch that continues the log."""
        head = file.read(position, HEADER_SIZE)
        if len(head) < HEADER_SIZE:
            return False
        length = int.from_bytes(head[BATCH_LENGTH_POSITION:LENGTH_OVERHEAD], "big", signed=True)
        following = position + LENGTH_OVERHEAD + length
        if length < HEADER_SIZE - LENGTH_OVERHEAD or following >= file.size:
            return False
        try:
            for batch in _batches(file, following, file.size):
                return verify_checksum(batch.view, batch.header) and batch.header.base_offset > offset
        except CorruptRecords:
            return False
        return False


def _batches(file: File, position: int, end: int) -> Iterator[Batch]:
    """The whole batches of a file with their positions, read in chunks."""
    wanted = _READ_BYTES
    while position < end:
        piece = file.read(position, min(wanted, end - position))
        used = 0
        for batch in iterate_batches(piece):
            used = batch.position + batch.header.size
            batch.position += position
            yield batch
        if used:
            position += used
            wanted = _READ_BYTES
            continue
        if len(piece) < LENGTH_OVERHEAD or len(piece) < wanted:
            return
        wanted = LENGTH_OVERHEAD + int.from_bytes(piece[BATCH_LENGTH_POSITION:LENGTH_OVERHEAD], "big", signed=True)
        if wanted <= len(piece) or wanted > _BATCH_BYTES_MAX:
            raise CorruptRecords(f"a batch of metadata claims {wanted} bytes")
