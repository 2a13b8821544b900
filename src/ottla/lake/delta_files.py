"""Data files of a Delta table, written and read in executors."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ottla.lake.buckets import key_buckets

__all__ = ["BUCKET_COLUMN", "DAY_COLUMN", "DeltaFiles"]

DAY_COLUMN = "timestamp_day"
BUCKET_COLUMN = "key_bucket"
"""The partition of a table with a row for each key."""

# Delta's readers skip files by the statistics of these columns.
_STATISTICS = ("partition", "offset", "_partition", "_offset")


@dataclass(frozen=True, slots=True)
class DeltaFiles:
    """The target of Delta tables. Partition columns are in the paths of files, and not all of them in the rows."""

    location: str
    columns: pa.Schema
    """The columns of rows, without those that are computed from them."""
    partition_by: tuple[str, ...] = ()
    buckets: int = 0

    @property
    def is_typed(self) -> bool:
        return "_offset" in self.columns.names

    def table_schema(self) -> pa.Schema:
        """The columns of the table."""
        computed = [pa.field(DAY_COLUMN, pa.date32()), pa.field(BUCKET_COLUMN, pa.int32())]
        return pa.schema([*self.columns, *(field for field in computed if field.name in self.partition_by)])

    def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        return self.columns if columns is None else pa.schema([self.columns.field(name) for name in columns])

    def path_of(self, file: str) -> str:
        return file

    def received(self, files: list[Any]) -> list[Any]:
        return files

    def read(self, file: str, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of a file. Columns that the table got later are null."""
        import pyarrow.parquet as pq

        files, root = self._files()
        schema = self.arrow_schema(columns)
        with files.open_input_file(f"{root}{file}") as source:
            parquet = pq.ParquetFile(source)
            present = set(parquet.schema_arrow.names)
            rows = parquet.read(columns=[name for name in schema.names if name in present])
        arrays = [
            rows[field.name].cast(field.type) if field.name in present else pa.nulls(rows.num_rows, field.type)
            for field in schema
        ]
        return pa.table(arrays, schema=schema)

    def write(self, rows: pa.Table) -> list[dict[str, Any]]:
        """Writes a file for each value of the partition columns. Returns what `AddAction` needs."""
        prefix = "_" if self.is_typed else ""
        if DAY_COLUMN in self.partition_by:
            rows = rows.append_column(DAY_COLUMN, rows[f"{prefix}timestamp"].cast(pa.date32()))
        if BUCKET_COLUMN in self.partition_by:
            keys = rows[f"{prefix}key"].combine_chunks()
            rows = rows.append_column(BUCKET_COLUMN, key_buckets(keys, self.buckets).cast(pa.int32()))
        if not self.partition_by:
            return [self._write(rows, {})]
        groups = rows.select(self.partition_by).group_by(list(self.partition_by)).aggregate([]).to_pylist()
        added = []
        for values in groups:
            mask = pa.array([True] * rows.num_rows)
            for name, value in values.items():
                mask = pc.and_(mask, pc.equal(rows[name], pa.scalar(value, rows[name].type)))
            added.append(self._write(rows.filter(mask).drop_columns(list(self.partition_by)), values))
        return added

    def delete(self, path: str) -> None:
        files, root = self._files()
        files.delete_file(f"{root}{path}")

    def _files(self) -> tuple[Any, str]:
        """The file system, and the prefix of the paths of files."""
        from pyarrow import fs

        if "://" in self.location:
            from deltalake.fs import DeltaStorageHandler

            # The library's view of the object store, with the same credentials and settings.
            return fs.PyFileSystem(DeltaStorageHandler(self.location)), ""
        return fs.LocalFileSystem(), f"{self.location}/"

    def _write(self, rows: pa.Table, values: Mapping[str, Any]) -> dict[str, Any]:
        import pyarrow.parquet as pq

        folder = "".join(f"{name}={value}/" for name, value in values.items())
        path = f"{folder}part-{uuid.uuid4()}.parquet"
        files, root = self._files()
        files.create_dir(f"{root}{folder}", recursive=True)
        pq.write_table(rows, f"{root}{path}", filesystem=files, compression="zstd")
        known = [name for name in _STATISTICS if name in rows.column_names]
        ends = {name: pc.min_max(rows[name]).as_py() for name in known}
        return {
            "path": path,
            "size": files.get_file_info(f"{root}{path}").size,
            "partition_values": {name: str(value) for name, value in values.items()},
            "modification_time": time.time_ns() // 1_000_000,
            "data_change": True,
            "stats": json.dumps(
                {
                    "numRecords": rows.num_rows,
                    "minValues": {name: ends[name]["min"] for name in known},
                    "maxValues": {name: ends[name]["max"] for name in known},
                    "nullCount": dict.fromkeys(known, 0),
                }
            ),
        }
