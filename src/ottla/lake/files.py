"""Data files of an Iceberg table, written in executors.

A file is complete before the driver hears of it. Files of lost and repeated tasks belong to no snapshot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

__all__ = ["DataFileWriter", "FileTarget", "sent_files"]

FILE_BYTES = 128 * 1024 * 1024
"""The size of the rows in memory from which on a file is written; files are several times smaller."""


@dataclass(frozen=True, slots=True)
class FileTarget:
    """Where and how files are written: small values that travel to executors."""

    metadata: TableMetadata
    io_properties: Mapping[str, str]

    @classmethod
    def of(cls, table: Table) -> FileTarget:
        return cls(table.metadata, dict(table.io.properties))


class DataFileWriter:
    """Collects rows of a table and writes a file whenever there are enough of them."""

    def __init__(self, target: FileTarget, *, file_bytes: int = FILE_BYTES) -> None:
        self._target = target
        self._file_bytes = file_bytes
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self.files: list[DataFile] = []

    def add(self, rows: pa.RecordBatch) -> None:
        if rows.num_rows:
            self._batches.append(rows)
            self._bytes += rows.nbytes
            if self._bytes >= self._file_bytes:
                self.flush()

    def flush(self) -> None:
        if not self._batches:
            return
        from pyiceberg.io import load_file_io
        from pyiceberg.io.pyarrow import _dataframe_to_data_files

        rows = pa.Table.from_batches(self._batches)
        self._batches, self._bytes = [], 0
        metadata = self._target.metadata
        self.files += _dataframe_to_data_files(
            metadata, rows, load_file_io(dict(self._target.io_properties), metadata.location)
        )


def sent_files(files: list[DataFile], metadata: TableMetadata) -> list[DataFile]:
    """Files that came from an executor: their partition spec is not part of what is pickled."""
    for file in files:
        file.spec_id = metadata.default_spec_id
    return files
