"""The start offsets of leader epochs (KIP-101), by which a follower finds where its log diverges from the leader's.

Epochs and offsets both increase. The file `leader-epoch-checkpoint` is written with every change. Changes are rare
(elections), and recovery reads lost entries from the batches, which contain their leader's epoch.

A log can be truncated while the disk is full: then the file has more epochs than the log for a while, like after a
crash between the two changes. Recovery removes epochs outside of the log. The file is written before the next batch,
which may have another epoch than the file has for its offset.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from ottla.model.ports import Files
from ottla.records.header import BatchHeader
from ottla.storage.checkpoints import CorruptCheckpoint, format_lines, parse_lines
from ottla.storage.errors import is_temporary
from ottla.storage.names import LEADER_EPOCH_FILE

__all__ = ["EpochEnd", "EpochStart", "LeaderEpochs"]

_UNDEFINED = -1


class EpochStart(NamedTuple):
    epoch: int
    start_offset: int


class EpochEnd(NamedTuple):
    """The largest epoch at or below the requested one, and the offset after its last record; -1, -1 if unknown."""

    epoch: int
    end_offset: int


class LeaderEpochs:
    """`latest` is -1 if no epoch is known. `latest_on_disk` is the same, or None while the file has to be written."""

    __slots__ = ("_entries", "_files", "directory", "is_unsynced", "latest", "latest_on_disk")

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self.directory = directory
        self._entries: tuple[EpochStart, ...] = ()
        self.latest = _UNDEFINED
        self.latest_on_disk: int | None = _UNDEFINED
        # True if the file has to be synced with the next flush of the log.
        self.is_unsynced = False

    @classmethod
    def load(cls, files: Files, directory: str) -> LeaderEpochs:
        """Reads the checkpoint. A damaged file counts as empty: truncation then uses the high watermark."""
        epochs = cls(files, directory)
        try:
            lines = parse_lines(files.read_bytes(epochs.path), fields=2)
            entries = [EpochStart(int(epoch), int(start_offset)) for epoch, start_offset in lines]
        except (CorruptCheckpoint, ValueError, FileNotFoundError):
            return epochs
        for epoch, start_offset in entries:
            epochs._hold(epochs._with(epoch, start_offset))
        return epochs

    def restore(self, entries: Iterable[Iterable[int]]) -> None:
        """Takes over epochs that are in the file already."""
        self._hold(tuple(EpochStart(*entry) for entry in entries))

    @property
    def path(self) -> str:
        return f"{self.directory}/{LEADER_EPOCH_FILE}"

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        return self._entries

    @property
    def latest_start_offset(self) -> int:
        return self._entries[-1].start_offset if self._entries else _UNDEFINED

    @property
    def is_unwritten(self) -> bool:
        """True if the file still has epochs that were removed in memory, because the disk was full."""
        return self.latest_on_disk is None

    def mark_unsynced(self) -> None:
        """The file on disk may not be durable: the next flush of the log syncs it."""
        self.is_unsynced = bool(self._entries)

    def mark_synced(self) -> None:
        """A flush of the log syncs the file."""
        self.is_unsynced = False

    def relocate(self, directory: str) -> None:
        self.directory = directory

    def assign_from(self, headers: Iterable[BatchHeader]) -> None:
        """Batches are about to be appended: their epochs begin where the batches do."""
        for header in headers:
            if header.leader_epoch != self.latest_on_disk:
                if header.magic == 2:
                    self.assign(header.leader_epoch, header.base_offset)
                else:
                    # Old formats carry no epoch. Without a gapless history, truncation uses the high watermark.
                    self._replace(())

    def assign(self, epoch: int, start_offset: int) -> bool:
        """The epoch begins at the offset. Contradicting entries are removed. Returns whether anything changed."""
        entries = self._with(epoch, start_offset)
        is_news = entries is not self._entries
        if is_news or self.is_unwritten:
            self._replace(entries)
        return is_news

    def previous_epoch(self, epoch: int) -> int:
        """The largest epoch below, or -1."""
        number = bisect_right(self._entries, (epoch, -1)) - 1
        return self._entries[number].epoch if number >= 0 else _UNDEFINED

    def epoch_of(self, offset: int) -> int:
        """The epoch in which the offset was written, or -1."""
        number = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset) - 1
        return self._entries[number].epoch if number >= 0 else _UNDEFINED

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd:
        """The result of OffsetForLeaderEpoch."""
        if epoch == _UNDEFINED or not self._entries or epoch > self.latest:
            return EpochEnd(_UNDEFINED, _UNDEFINED)
        if epoch == self.latest:
            return EpochEnd(epoch, log_end_offset)
        number = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        if number == 0:
            # Older than every known epoch: it ended where the first known epoch begins.
            return EpochEnd(epoch, self._entries[0].start_offset)
        return EpochEnd(self._entries[number - 1].epoch, self._entries[number].start_offset)

    def truncate_from_end(self, end_offset: int) -> None:
        """The log ends at the offset now: later epochs are removed."""
        self._shorten(tuple(entry for entry in self._entries if entry.start_offset < end_offset))

    def truncate_from_start(self, start_offset: int) -> None:
        """The log begins at the offset now: the epoch of that offset begins there."""
        number = bisect_right(self._entries, start_offset, key=lambda entry: entry.start_offset)
        if number == 0:
            return
        first = EpochStart(self._entries[number - 1].epoch, start_offset)
        self._shorten((first, *self._entries[number:]))

    def replace(self, entries: Iterable[EpochStart]) -> None:
        """Takes over the epochs that recovery has read from the batches."""
        self._shorten(tuple(entries))

    def clear(self) -> None:
        self._shorten(())

    def write_late(self) -> None:
        """Tries again to write the file, if the disk was full."""
        if self.is_unwritten:
            self._shorten(self._entries)

    def _with(self, epoch: int, start_offset: int) -> tuple[EpochStart, ...]:
        """The entries with the new epoch; the same tuple if nothing changes."""
        if epoch < 0 or start_offset < 0:
            return self._entries
        entry = EpochStart(epoch, start_offset)
        if self._entries and self._entries[-1].epoch == epoch and self._entries[-1].start_offset <= start_offset:
            return self._entries
        kept = [old for old in self._entries if old.epoch < epoch and old.start_offset < start_offset]
        return (*kept, entry)

    def _hold(self, entries: tuple[EpochStart, ...], *, is_on_disk: bool = True) -> None:
        self._entries = entries
        self.latest = entries[-1].epoch if entries else _UNDEFINED
        self.latest_on_disk = self.latest if is_on_disk else None

    def _shorten(self, entries: tuple[EpochStart, ...]) -> None:
        """Removes epochs: at once here, and from the file when there is room."""
        try:
            self._replace(entries)
        except OSError as error:
            if not is_temporary(error):
                raise
            self._hold(entries, is_on_disk=False)
            self.is_unsynced = True

    def _replace(self, entries: tuple[EpochStart, ...]) -> None:
        """Writes the file first, because recovery takes batches of an epoch that is not in the file for damaged.

        If the disk is full, nothing has changed, and the next batch tries again.
        """
        if entries != self._entries or self.is_unwritten:
            # The next flush of the log makes it durable. Until then the batches contain the same epochs.
            lines = (f"{entry.epoch} {entry.start_offset}" for entry in entries)
            self._files.write_atomically(self.path, format_lines(lines), durable=False)
            self.is_unsynced = True
            self._hold(entries)
