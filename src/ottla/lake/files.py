"""Data files of an Iceberg table, written in executors.

A file is complete before the driver hears of it. Files of lost and repeated tasks belong to no snapshot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from ottla.spark.tables import TableFiles

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile
    from pyiceberg.table.metadata import TableMetadata

__all__ = ["DataFileWriter", "sent_files"]

FILE_BYTES = 128 * 1024 * 1024
"""The size of the rows in memory from which on a file is written; files are several times smaller."""


class DataFileWriter:
    """Collects rows of a table and writes a file whenever there are enough of them."""

    def __init__(self, target: TableFiles, *, file_bytes: int = FILE_BYTES) -> None:
        self._target = target
        self._file_bytes = file_bytes
        self._batches: list[pa.RecordBatch] = []
        self._bytes = 0
        self._files: list[DataFile] = []

    def add(self, rows: pa.RecordBatch) -> None:
        if rows.num_rows:
            self._batches.append(rows)
            self._bytes += rows.nbytes
            if self._bytes >= self._file_bytes:
                self.flush()

    def finish(self) -> list[DataFile]:
        """The files of all rows."""
        self.flush()
        return self._files

    def flush(self) -> None:
        if not self._batches:
            return
        from pyiceberg.io.pyarrow import _dataframe_to_data_files

        rows = pa.Table.from_batches(self._batches)
        self._batches, self._bytes = [], 0
        self._files += _dataframe_to_data_files(self._target.metadata, rows, self._target.io())


def sent_files(files: list[DataFile], metadata: TableMetadata) -> list[DataFile]:
    """Files that came from an executor: their partition spec is not part of what is pickled."""
    for file in files:
        file.spec_id = metadata.default_spec_id
    return files
