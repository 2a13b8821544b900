"""Data files of a table, written in executors.

A file is complete before its task reports it to the driver. Files of lost and repeated tasks belong to no snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from ottla.spark.tables import TableFiles

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile

__all__ = ["FILE_BYTES", "DataFileWriter", "IcebergFiles", "RowTarget"]

FILE_BYTES = 128 * 1024 * 1024
"""The size of the rows in memory from which on a file is written; files are several times smaller."""


class RowTarget(Protocol):
    """The part of a table that tasks need: a small value that is sent to executors."""

    def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """The columns of rows that are read and written."""
        ...

    def write(self, rows: pa.Table) -> list[Any]:
        """Writes rows; returns the descriptions of the files for the commit."""
        ...

    def read(self, file: Any, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of a file, with the present columns of the table."""
        ...

    def path_of(self, file: Any) -> str: ...

    def received(self, files: list[Any]) -> list[Any]:
        """Files that came from an executor, for the commit."""
        ...


class IcebergFiles(TableFiles):
    """The target of Iceberg tables."""

    __slots__ = ()

    def write(self, rows: pa.Table) -> list[DataFile]:
        from pyiceberg.io.pyarrow import _dataframe_to_data_files

        return list(_dataframe_to_data_files(self.metadata, rows, self.io()))

    def path_of(self, file: Any) -> str:
        path: str = file.file.file_path
        return path

    def received(self, files: list[DataFile]) -> list[DataFile]:
        # Pickled files lack their partition spec.
        for file in files:
            file.spec_id = self.metadata.default_spec_id
        return files


class DataFileWriter:
    """Collects rows of a table and writes a file whenever there are enough of them."""

    def __init__(self, target: RowTarget, *, file_bytes: int = FILE_BYTES) -> None:
        self._target = target
        self._file_bytes = file_bytes
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._files: list[Any] = []

    def add(self, rows: pa.RecordBatch) -> None:
        if rows.num_rows:
            self._batches.append(rows)
            self._bytes += rows.nbytes
            if self._bytes >= self._file_bytes:
                self.flush()

    def finish(self) -> list[Any]:
        """The files of all rows."""
        self.flush()
        return self._files

    def flush(self) -> None:
        if not self._batches:
            return
        rows = pa.Table.from_batches(self._batches)
        self._batches, self._bytes = [], 0
        self._files += self._target.write(rows)
