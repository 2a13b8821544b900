"""The state of a task on disk: an LMDB environment with a table for every store, and a position for every table.

A local commit writes rows that were committed in Kafka before. It writes them in slices, so that a worker does not
pause for long; the positions follow in the last slice. After a crash between slices some rows are newer than their
position. Restoring from the position applies them again, and ends with the same rows.

Nothing is synced to the disk while a task runs: the operating system keeps what a killed process has written. After a
crash of the machine the state is not trusted and restored from the changelogs.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby, islice
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakSet

from ottla.streams.disk.directory import LockedDirectory
from ottla.streams.disk.keys import CUT_BYTES, LONG_KEY_BYTES, stored_key, unstored_row, with_key
from ottla.streams.errors import StreamsError
from ottla.streams.state.table import StoreChanges

__all__ = ["Checkpoint", "LmdbTable", "TaskState", "is_available"]

_FORMAT = 2
_SLICE_ROWS = 8192
_LOAD_ROWS = 65_536
# Addresses, not memory: a table may grow to this size before the map has to.
_FIRST_MAP_BYTES = 1 << 36
_TABLES_MAX = 256
_STATUS = "status.json"
_CHECKPOINTS = "ottla.checkpoints"
# Sorts after every hash.
_HIGHEST_BYTES = 33
_HIGHEST = b"\xff" * _HIGHEST_BYTES


def is_available() -> bool:
    """True if lmdb is installed."""
    try:
        import lmdb  # noqa: F401
    except ImportError:
        return False
    return True


class Checkpoint(NamedTuple):
    """The state of a table: it contains its changelog up to a position."""

    # The id of the changelog topic: a topic that was deleted and created again has a new id.
    topic_id: str
    position: int
    # The stream time of the store: its largest timestamp so far.
    observed: int
    written_ms: int
    kind: str = ""
    # The last sequence number of a store that retains duplicates.
    sequence: int = 0


class LmdbTable:
    """A `Table` with the rows of the last local commit."""

    def __init__(self, state: TaskState, name: str) -> None:
        self._state = state
        self.database = state.open_database(name)
        # A cursor belongs to the transaction of a reader.
        self._reader: Any = None
        self._cursor: Any = None

    def get(self, key: bytes) -> bytes | None:
        stored = stored_key(key)
        row: bytes | None = self._state.reader.get(stored, db=self.database)
        return row if row is None or len(stored) != LONG_KEY_BYTES else unstored_row(stored, row)[1]

    def scan(
        self, first: bytes | None = None, last: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, bytes]]:
        return Scan(self._state, lambda cursor: _rows_between(cursor, first, last, reverse=reverse), self.database)

    def prefix(self, prefix: bytes) -> list[tuple[bytes, bytes]]:
        if len(prefix) >= CUT_BYTES - _HIGHEST_BYTES:
            # Rows of long keys are out of order.
            return list(self.scan(prefix, prefix + _HIGHEST))
        reader = self._state.reader
        if self._reader is not reader:
            self._reader, self._cursor = reader, reader.cursor(self.database)
        stored, rows = stored_key(prefix), []
        if self._cursor.set_range(stored):
            for key, content in self._cursor.iternext():
                if not key.startswith(stored):
                    break
                rows.append((key[1:], content))
        return rows

    def count(self) -> int:
        entries: int = self._state.reader.stat(self.database)["entries"]
        return entries


class Scan:
    """Rows of a table as of the first read, in a separate transaction."""

    def __init__(self, state: TaskState, read: Callable[[Any], Iterator[tuple[bytes, bytes]]], database: Any) -> None:
        self._state = state
        self._read = read
        self._database = database
        self._transaction: Any = None
        self._rows: Iterator[tuple[bytes, bytes]] | None = None

    def __iter__(self) -> Scan:
        return self

    def __next__(self) -> tuple[bytes, bytes]:
        if self._rows is None:
            self._transaction = self._state.environment.begin(db=self._database)
            self._rows = self._read(self._transaction.cursor())
            self._state.scans.add(self)
        for row in self._rows:
            return row
        self._end()
        raise StopIteration

    def detach(self) -> None:
        """Reads the remaining rows into memory. LMDB cannot grow while it is read."""
        self._rows = iter(list(self._rows or ()))
        self._end()

    def _end(self) -> None:
        self._state.scans.discard(self)
        if self._transaction is not None:
            self._transaction.abort()
            self._transaction = None

    def __del__(self) -> None:
        if self._transaction is not None:
            self._transaction.abort()


def _rows_between(
    cursor: Any, first: bytes | None, last: bytes | None, *, reverse: bool
) -> Iterator[tuple[bytes, bytes]]:
    rows = _walk(cursor, first, last, reverse=reverse)
    for cut_prefix, group in groupby(rows, lambda row: row[0][:CUT_BYTES] if len(row[0]) >= CUT_BYTES else None):
        pairs: Any = (unstored_row(*row) for row in group)
        for key, content in sorted(pairs, reverse=reverse) if cut_prefix is not None else pairs:
            if (first is None or key >= first) and (last is None or key <= last):
                yield key, content


def _walk(cursor: Any, first: bytes | None, last: bytes | None, *, reverse: bool) -> Iterator[tuple[bytes, bytes]]:
    """Stored rows between two keys. Rows that share their first bytes with a long key may be outside the range."""
    low = b"" if first is None else stored_key(first)[:CUT_BYTES]
    high = None if last is None else stored_key(last)
    if high is not None and len(high) >= CUT_BYTES:
        high = high[:CUT_BYTES] + _HIGHEST
    if not reverse:
        if cursor.set_range(low):
            for stored, content in cursor.iternext():
                if high is not None and stored > high:
                    return
                yield stored, content
        return
    if high is None or not cursor.set_range(high):
        is_positioned = cursor.last()
    else:
        is_positioned = cursor.key() == high or cursor.prev()
    while is_positioned and cursor.key() >= low:
        yield cursor.item()
        is_positioned = cursor.prev()


class TaskState:
    """The tables of one task. One thread uses it."""

    def __init__(self, directory: LockedDirectory) -> None:
        self._directory = directory
        self._map_bytes = _FIRST_MAP_BYTES
        if not _is_trustworthy(directory.path):
            directory.clear()
        _write_status(directory.path, is_clean=False)
        self._open()
        self._tables: dict[str, LmdbTable] = {}
        self._slices: Iterator[None] | None = None
        # Scans that have begun and have not ended.
        self.scans: WeakSet[Scan] = WeakSet()
        # True if a local commit has failed, for instance because the disk is full.
        self._is_broken = False
        self._checkpoints = self.open_database(_CHECKPOINTS)

    # Reading.

    def table(self, name: str, kind: str) -> tuple[LmdbTable, Checkpoint | None]:
        """The table of a store, and its checkpoint: None if the table is new, or of another kind of store."""
        table = self._tables.get(name) or LmdbTable(self, name)
        self._tables[name] = table
        checkpoint = self.checkpoint(name)
        if checkpoint is None or checkpoint.kind != kind:
            self.clear_table(name)
            return table, None
        return table, checkpoint

    def checkpoint(self, name: str) -> Checkpoint | None:
        content = self.reader.get(name.encode(), db=self._checkpoints)
        return None if content is None else Checkpoint(**json.loads(content))

    def open_database(self, name: str) -> Any:
        database = self.environment.open_db(name.encode())
        # A transaction sees only the databases that existed when it began.
        self._renew_reader()
        return database

    # Writing.

    @property
    def is_writing(self) -> bool:
        return self._slices is not None

    def begin_commit(self, changes: Mapping[str, StoreChanges], checkpoints: Mapping[str, Checkpoint]) -> None:
        """Starts a local commit; `advance` writes it."""
        assert self._slices is None
        self._slices = self._write(changes, checkpoints)

    def advance(self) -> bool:
        """Writes a slice. True if the local commit is complete. After a failure nothing can be written any more."""
        if self._is_broken:
            raise StreamsError(f"An earlier local commit to {self._directory.path} has failed.")
        if self._slices is None:
            return True
        try:
            next(self._slices)
        except StopIteration:
            self._slices = None
            return True
        except BaseException:
            # The checkpoint of a later local commit would cover rows that are missing.
            self._is_broken = True
            raise
        return False

    def clear_table(self, name: str) -> None:
        """Removes all rows of a store, and its checkpoint."""

        def clear(transaction: Any) -> None:
            transaction.drop(self._tables[name].database, delete=False)
            transaction.delete(name.encode(), db=self._checkpoints)

        self._transact(clear)

    def load(
        self, name: str, rows: Iterable[tuple[bytes, bytes]], deleted: list[bytes], checkpoint: Checkpoint
    ) -> Iterator[None]:
        """Writes many rows, in the order of their stored keys, with their checkpoint: a part of a restore."""
        database = self._tables[name].database
        is_new = not self._tables[name].count()
        remaining = iter(rows)
        # Small transactions need less memory; a crash between them is repaired by the restore that follows.
        while batch := list(islice(remaining, _LOAD_ROWS)):
            self._transact(lambda transaction, batch=batch: transaction.cursor(database).putmulti(batch, append=is_new))
            yield

        def finish(transaction: Any) -> None:
            for key in deleted:
                transaction.delete(key, db=database)
            self._put_checkpoint(transaction, name, checkpoint)

        self._transact(finish)

    def close(self, *, syncs: bool = True) -> None:
        """Completes a local commit that has begun. State that is synced is trusted after a restart of the machine."""
        while not self.advance():
            pass
        self.reader.abort()
        if syncs:
            self.environment.sync(True)
        self.environment.close()
        _write_status(self._directory.path, is_clean=syncs)
        self._directory.release()

    def abandon(self) -> None:
        """Closes the state like a killed process: rows that were not written are lost."""
        self._slices = None
        self.environment.close()
        self._directory.release()

    # Internals.

    def _open(self) -> None:
        import lmdb

        self._map_full = lmdb.MapFullError
        self.environment = lmdb.open(
            str(self._directory.path),
            map_size=self._map_bytes,
            max_dbs=_TABLES_MAX,
            sync=False,
            metasync=False,
            readahead=False,
        )
        # The map of a file that has grown is larger than the requested size.
        self._map_bytes = self.environment.info()["map_size"]
        self.reader = self.environment.begin()

    def _write(self, changes: Mapping[str, StoreChanges], checkpoints: Mapping[str, Checkpoint]) -> Iterator[None]:
        last: list[tuple[Any, list[tuple[bytes, bytes | None]]]] = []
        for name, change in changes.items():
            database = self._tables[name].database
            rows = [
                (stored_key(key), None if content is None else with_key(key, change.pack(content)))
                for key, content in change.rows.items()
                if change.expired_before is None or key >= change.expired_before
            ]
            rows.sort(key=lambda row: row[0])
            while len(rows) > _SLICE_ROWS and change.is_repeatable:
                batch, rows = rows[:_SLICE_ROWS], rows[_SLICE_ROWS:]
                self._transact(lambda transaction, batch=batch, database=database: _put(transaction, database, batch))
                yield
            last.append((database, rows))
            if change.expired_before is not None:
                yield from self._delete_before(database, change.expired_before)

        def finish(transaction: Any) -> None:
            for database, rows in last:
                _put(transaction, database, rows)
            for name, checkpoint in checkpoints.items():
                self._put_checkpoint(transaction, name, checkpoint)

        self._transact(finish)

    def _delete_before(self, database: Any, key: bytes) -> Iterator[None]:
        """Deletes expired rows. No reader needs them, so they may go before the checkpoint is written."""
        end, has_more = stored_key(key), True

        def delete(transaction: Any) -> None:
            nonlocal has_more
            cursor = transaction.cursor(database)
            is_positioned = cursor.first()
            for _ in range(_SLICE_ROWS):
                if not is_positioned or cursor.key() >= end:
                    has_more = False
                    return
                is_positioned = cursor.delete()

        while has_more:
            self._transact(delete)
            if has_more:
                yield

    def _transact(self, write: Any) -> None:
        """One transaction; the map grows if it is full."""
        while True:
            try:
                with self.environment.begin(write=True) as transaction:
                    write(transaction)
                break
            except self._map_full:
                self.reader.abort()
                for scan in list(self.scans):
                    scan.detach()
                self._map_bytes *= 2
                self.environment.set_mapsize(self._map_bytes)
                self.reader = self.environment.begin()
        self._renew_reader()

    def _renew_reader(self) -> None:
        self.reader.abort()
        self.reader = self.environment.begin()

    def _put_checkpoint(self, transaction: Any, name: str, checkpoint: Checkpoint) -> None:
        transaction.put(name.encode(), json.dumps(checkpoint._asdict()).encode(), db=self._checkpoints)


def _put(transaction: Any, database: Any, rows: list[tuple[bytes, bytes | None]]) -> None:
    present = [row for row in rows if row[1] is not None]
    if present:
        transaction.cursor(database).putmulti(present)
    if len(present) < len(rows):
        for key, content in rows:
            if content is None:
                transaction.delete(key, db=database)


def _boot_id() -> str:
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return ""


def _is_trustworthy(path: Path) -> bool:
    """True if the last user closed the state, or if the machine has not been restarted since."""
    try:
        status = json.loads((path / _STATUS).read_text())
        return status["format"] == _FORMAT and (status["is_clean"] or bool(status["boot_id"] == _boot_id() != ""))
    except (OSError, ValueError, KeyError):
        return False


def _write_status(path: Path, *, is_clean: bool) -> None:
    content = {"format": _FORMAT, "is_clean": is_clean, "boot_id": _boot_id(), "time_ms": time.time_ns() // 1_000_000}
    temporary = path / f"{_STATUS}.new"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path / _STATUS)
