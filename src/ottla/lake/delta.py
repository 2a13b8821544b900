"""A Delta table of a topic, with raw rows.

The position is a part of the table's own protocol: an application transaction for each partition of the topic, whose
version is the next offset. It is committed with the files, survives checkpoints of the log, and two commits that move
the same application transaction conflict for every writer of Delta.
"""

from __future__ import annotations

import json
import logging
import pickle
import re
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from ottla.lake.columns import RAW_SCHEMA, raw_rows
from ottla.lake.errors import LakeError
from ottla.lake.files import FILE_BYTES
from ottla.lake.planning import plan_batch
from ottla.lake.settings import Mode
from ottla.lake.tasks import RESULT
from ottla.spark.options import SourceOptions, source_options
from ottla.spark.source.ranges import Range, read_range
from ottla.spark.tables import TOPIC, TOPIC_ID, Position

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import SparkSession

    from ottla.lake.settings import LakeSettings, TableSettings

__all__ = ["DeltaFiles", "DeltaPipeline", "delta_location", "delta_position", "open_delta"]

log = logging.getLogger(__name__)

_COMMIT_ATTEMPTS = 5
_DAY = re.compile(r"day\(\s*timestamp\s*\)")
_DAY_COLUMN = "timestamp_day"
_STATISTICS = ("partition", "offset")


def delta_location(lake: LakeSettings, settings: TableSettings) -> str:
    return "/".join([lake.catalog["warehouse"], *settings.identifier])


def open_delta(location: str) -> DeltaTable | None:
    """The table; None if there is none yet."""
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError
    except ImportError:
        raise LakeError("Delta tables need deltalake: run `pip install '.[lake]'` in a checkout of Ottla.") from None
    try:
        return DeltaTable(location)
    except TableNotFoundError:
        return None


def delta_position(table: DeltaTable) -> Position:
    """The position of a table of a topic. Raises LakeError for another table."""
    try:
        about = json.loads(table.metadata().description or "")
        topic, topic_id = about[TOPIC], about[TOPIC_ID]
    except (ValueError, KeyError, TypeError):
        raise LakeError(f"{table.table_uri} is not the table of a topic. Choose another name.") from None
    offsets: dict[int, int] = {}
    # A commit has all partitions of the topic, and partitions have consecutive numbers.
    while (offset := table.transaction_version(_application(topic_id, len(offsets)))) is not None:
        offsets[len(offsets)] = offset
    return Position(topic, topic_id, offsets)


def _application(topic_id: str, partition: int) -> str:
    return f"ottla/{topic_id}/{partition}"


@dataclass(frozen=True, slots=True)
class DeltaFiles:
    """Where executors write files, and the columns that are in the paths instead."""

    location: str
    partition_by: tuple[str, ...]

    def schema(self) -> pa.Schema:
        schema = RAW_SCHEMA
        return schema.append(pa.field(_DAY_COLUMN, pa.date32())) if _DAY_COLUMN in self.partition_by else schema

    def write(self, rows: pa.Table) -> list[dict[str, Any]]:
        """Writes a file for each value of the partition columns. Returns what `AddAction` needs."""
        if _DAY_COLUMN in self.partition_by:
            rows = rows.append_column(_DAY_COLUMN, rows["timestamp"].cast(pa.date32()))
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

    def _write(self, rows: pa.Table, values: Mapping[str, Any]) -> dict[str, Any]:
        import pyarrow.parquet as pq
        from pyarrow import fs

        folder = "".join(f"{name}={value}/" for name, value in values.items())
        path = f"{folder}part-{uuid.uuid4()}.parquet"
        remote = "://" in self.location
        files, base = fs.FileSystem.from_uri(self.location) if remote else (fs.LocalFileSystem(), self.location)
        files.create_dir(f"{base}/{folder}", recursive=True)
        pq.write_table(rows, f"{base}/{path}", filesystem=files, compression="zstd")
        known = [name for name in _STATISTICS if name in rows.column_names]
        ends = {name: pc.min_max(rows[name]).as_py() for name in known}
        return {
            "path": path,
            "size": files.get_file_info(f"{base}/{path}").size,
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


class DeltaPipeline:
    """Keeps one Delta table current; the counterpart of `TablePipeline`."""

    def __init__(self, spark: SparkSession, lake: LakeSettings, settings: TableSettings) -> None:
        if settings.mode is not Mode.RAW:
            raise LakeError(
                f"format = delta has mode = raw only, and topic {settings.topic} has {settings.mode.value}."
            )
        self._spark = spark
        self.settings = settings
        self.lag = 0
        self._options: SourceOptions = source_options(
            {**lake.client, "subscribe": settings.topic, "onDataLoss": settings.on_data_loss}, streaming=False
        )
        self._files = DeltaFiles(delta_location(lake, settings), _partition_columns(settings.partition_by))

    def step(self) -> int:
        """Lands one batch and returns the number of its records. Raises what prevented it; it may be repeated."""
        table = open_delta(self._files.location)
        before = None if table is None else delta_position(table)
        if before is not None and before.topic != self.settings.topic:
            raise LakeError(f"{self._files.location} is the table of topic {before.topic}; set another table name.")
        batch = plan_batch(
            self._options,
            self.settings,
            before if before is not None and before.offsets else None,
            tasks=self._spark.sparkContext.defaultParallelism,
        )
        self.lag = 0 if batch is None else batch.lag
        if batch is None:
            return 0
        if before is not None and before.topic_id != batch.after.topic_id:
            raise LakeError(f"{self._files.location} has the records of an earlier topic of this name.")
        if table is None:
            table = self._create(batch.after)
            if delta_position(table) != Position(self.settings.topic, batch.after.topic_id):
                log.warning("Another pipeline writes to %s: a batch was dropped here.", self._files.location)
                return 0
        actions, records = _write_records(self._spark, self._options, batch.work, self._files)
        if not self._commit(table, actions, before or Position(self.settings.topic, batch.after.topic_id), batch.after):
            return 0
        log.info("%s: %d records of topic %s", self._files.location, records, self.settings.topic)
        return records

    def _create(self, position: Position) -> DeltaTable:
        """A new table; if another pipeline was faster, its table with all that is in it."""
        from deltalake import DeltaTable

        Path(self._files.location).mkdir(parents=True, exist_ok=True)
        about = {TOPIC: position.topic, TOPIC_ID: position.topic_id}
        return DeltaTable.create(
            self._files.location,
            schema=self._files.schema(),
            mode="ignore",
            partition_by=list(self._files.partition_by),
            description=json.dumps(about),
        )

    def _commit(self, table: DeltaTable, actions: Sequence[dict[str, Any]], before: Position, after: Position) -> bool:
        """True if the batch is in the table, and False if another pipeline has moved the position elsewhere."""
        from deltalake.transaction import AddAction, CommitProperties, Transaction

        adds = [AddAction(**action) for action in actions]
        for attempt in range(_COMMIT_ATTEMPTS):
            properties = CommitProperties(
                custom_metadata=after.to_properties(),
                # The library would repeat a failed commit without a look at the position.
                max_commit_retries=0,
                app_transactions=[
                    Transaction(_application(after.topic_id, partition), offset)
                    for partition, offset in after.offsets.items()
                ],
            )
            try:
                table.create_write_transaction(
                    adds,
                    "append",
                    table.schema(),
                    partition_by=list(self._files.partition_by),
                    commit_properties=properties,
                )
            except Exception as error:
                log.info("Commit to %s failed: %s", self._files.location, error)
                found = open_delta(self._files.location)
                assert found is not None
                table, position = found, delta_position(found)
                if position == after:
                    # This commit, or the same records by another pipeline.
                    return True
                if position != before:
                    log.warning("Another pipeline writes to %s: a batch was dropped here.", self._files.location)
                    return False
                if attempt == _COMMIT_ATTEMPTS - 1:
                    raise
            else:
                return True
        return False


def _partition_columns(fields: Sequence[str]) -> tuple[str, ...]:
    columns = []
    for text in fields:
        if _DAY.fullmatch(text):
            columns.append(_DAY_COLUMN)
        elif text == "partition":
            columns.append(text)
        else:
            raise LakeError(f"partition.by has {text!r}; Delta tables have day(timestamp) and partition.")
    return tuple(columns)


def _write_records(
    spark: SparkSession, options: SourceOptions, work: tuple[tuple[Range, ...], ...], files: DeltaFiles
) -> tuple[list[dict[str, Any]], int]:
    frame = spark.range(0, len(work), 1, len(work)).mapInArrow(partial(_write, options, work, files), RESULT)
    results = [pickle.loads(row.result) for row in frame.collect()]
    return [action for actions, _ in results for action in actions], sum(records for _, records in results)


def _write(
    options: SourceOptions,
    work: tuple[tuple[Range, ...], ...],
    files: DeltaFiles,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            actions: list[dict[str, Any]] = []
            waiting: list[pa.RecordBatch] = []
            records = size = 0
            for piece in work[number]:
                for rows in read_range(options, piece):
                    waiting.append(raw_rows(rows))
                    records += rows.num_rows
                    size += rows.nbytes
                    if size >= FILE_BYTES:
                        actions += files.write(pa.Table.from_batches(waiting))
                        waiting, size = [], 0
            if waiting:
                actions += files.write(pa.Table.from_batches(waiting))
            content = pa.array([pickle.dumps((actions, records))], pa.binary())
            yield pa.RecordBatch.from_arrays([content], names=["result"])
