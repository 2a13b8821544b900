"""A Delta table of a topic.

The position is a part of the table's own protocol: an application transaction for each partition of the topic, whose
version is the next offset. It is committed with the files, survives checkpoints of the log, and two commits that move
the same application transaction conflict for every writer of Delta.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ottla.lake.delta_evolution import delta_columns, evolve_delta
from ottla.lake.delta_files import BUCKET_COLUMN, DAY_COLUMN, DeltaFiles
from ottla.lake.errors import LakeError, Overtaken
from ottla.lake.evolution import RENAMED
from ottla.spark.tables import MODE, TOPIC, TOPIC_ID, Position

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake.transaction import RemoveAction
    from pyspark.sql import SparkSession

    from ottla.lake.settings import TableSettings
    from ottla.lake.stores import NewTable
    from ottla.lake.subjects import SubjectSchema

__all__ = ["DeltaLakeTable", "DeltaStore", "open_delta"]

log = logging.getLogger(__name__)

_COMMIT_ATTEMPTS = 5
_BUCKETS = "ottla.buckets"
_DAY = re.compile(r"day\(\s*_?timestamp\s*\)")
# With these features a file may have rows that are not in the table, or columns under other names.
_NOT_REWRITTEN = {"deletionVectors", "columnMapping"}


class DeltaLakeTable:
    """A table as it was at the last `refresh`. Only `refresh` and `commit` see changes of other writers."""

    def __init__(self, location: str, table: DeltaTable) -> None:
        self.name = location
        self.table = table
        self._description = _description(table)

    @classmethod
    def find(cls, location: str) -> DeltaLakeTable | None:
        """The table; None if it does not exist yet. Raises LakeError if it is not the table of a topic."""
        table = open_delta(location)
        return None if table is None else cls(location, table)

    @property
    def topic(self) -> str:
        return str(self._description[TOPIC])

    @property
    def mode(self) -> str:
        return str(self._description.get(MODE, "raw"))

    def refresh(self) -> None:
        table = open_delta(self.name)
        if table is None:
            raise LakeError(f"The table {self.name} was deleted.")
        self.table, self._description = table, _description(table)

    def position(self) -> Position | None:
        topic, topic_id = self._description[TOPIC], self._description[TOPIC_ID]
        offsets: dict[int, int] = {}
        # A commit has all partitions of the topic, and partitions have consecutive numbers.
        while (offset := self.table.transaction_version(_application(topic_id, len(offsets)))) is not None:
            offsets[len(offsets)] = offset
        return Position(topic, topic_id, offsets) if offsets else None

    def target(self) -> DeltaFiles:
        schema: pa.Schema = pa.schema(self.table.schema().to_arrow())
        computed = (DAY_COLUMN, BUCKET_COLUMN)
        partition_by = tuple(self.table.metadata().partition_columns)
        columns = pa.schema([field for field in schema if field.name not in computed or field.name not in partition_by])
        return DeltaFiles(self.name, columns, partition_by, int(self._description.get(_BUCKETS, 0)))

    def renamed(self) -> dict[str, str]:
        names: dict[str, str] = json.loads(self.table.metadata().configuration.get(RENAMED, "{}"))
        return names

    def buckets(self) -> int:
        features = set(self.table.protocol().reader_features or ()) & _NOT_REWRITTEN
        if features:
            raise LakeError(
                f"The table {self.name} has the feature {min(features)} of Delta: its rows cannot be replaced here."
            )
        return int(self._description.get(_BUCKETS, 0))

    def files_by_bucket(self) -> dict[int, list[str]]:
        actions = pa.table(self.table.get_add_actions(flatten=True))
        paths_by_bucket: dict[int, list[str]] = {}
        buckets = actions[f"partition.{BUCKET_COLUMN}"].to_pylist() if actions.num_rows else []
        for bucket, path in zip(buckets, actions["path"].to_pylist(), strict=True):
            paths_by_bucket.setdefault(int(bucket), []).append(path)
        return paths_by_bucket

    def files_at(self, paths: Sequence[str]) -> list[RemoveAction]:
        from deltalake.transaction import RemoveAction

        buckets = {path: bucket for bucket, files in self.files_by_bucket().items() for path in files} if paths else {}
        now_ms = time.time_ns() // 1_000_000
        return [
            RemoveAction(path, data_change=True, deletion_timestamp=now_ms, partition_values=_in_bucket(buckets[path]))
            for path in paths
        ]

    def places(self, first: int, end: int) -> pa.Table:
        import pyarrow.compute as pc

        row_filter = (pc.field("offset") >= first) & (pc.field("offset") < end)
        return self.table.to_pyarrow_dataset().to_table(columns=["partition", "offset"], filter=row_filter)

    def commit(
        self,
        added: Sequence[dict[str, Any]],
        expected: Position | None,
        after: Position,
        *,
        commit_id: str,  # noqa: ARG002 - the position shows whether a commit has landed
        removed: Sequence[RemoveAction] = (),
    ) -> None:
        """Adds and removes files and moves the position at once. Raises Overtaken, or an error of unknown outcome."""
        if after.topic_id != self._description[TOPIC_ID]:
            raise LakeError(f"{self.name} has the records of an earlier topic of this name. Set another table name.")
        for attempt in range(_COMMIT_ATTEMPTS):
            self._require_position(expected, added)
            try:
                self._try_commit(added, removed, after)
            except Exception as error:
                log.info("Commit to %s failed: %s", self.name, error)
                self.refresh()
                if after == expected:
                    # The unchanged position does not show the outcome; the repeated batch looks at the rows.
                    raise
                if self.position() == after:
                    # This commit has landed, or another pipeline has committed the same records.
                    return
                self._require_position(expected, added)
                # The files to replace may have changed: such a batch is planned again.
                if removed or attempt == _COMMIT_ATTEMPTS - 1:
                    raise
            else:
                return

    def _try_commit(self, added: Sequence[dict[str, Any]], removed: Sequence[RemoveAction], after: Position) -> None:
        from deltalake.transaction import AddAction, CommitProperties, Transaction

        properties = CommitProperties(
            custom_metadata=after.to_properties(),
            # The library would repeat a failed commit without checking the position.
            max_commit_retries=0,
            app_transactions=[
                Transaction(_application(after.topic_id, partition), offset)
                for partition, offset in after.offsets.items()
            ],
        )
        self.table.create_write_transaction(
            [*(AddAction(**action) for action in added), *removed],
            "append",
            self.table.schema(),
            partition_by=list(self.table.metadata().partition_columns),
            commit_properties=properties,
        )

    def _require_position(self, expected: Position | None, added: Sequence[dict[str, Any]]) -> None:
        """Raises Overtaken, and deletes the files of the batch, if the table has another position."""
        if self.position() == expected:
            return
        target = self.target()
        for action in added:
            try:
                target.delete(action["path"])
            except OSError as error:
                log.warning("Unused file %s remains: %s", action["path"], error)
        raise Overtaken(f"Another pipeline writes to {self.name}.")


class DeltaStore:
    """The Delta tables of a warehouse, which has no catalog: a table is a directory."""

    def __init__(self, warehouse: str) -> None:
        self._warehouse = warehouse

    def location(self, identifier: Sequence[str]) -> str:
        return "/".join([self._warehouse, *identifier])

    def find(self, settings: TableSettings) -> DeltaLakeTable | None:
        _partition_columns(settings.partition_by)
        table = DeltaLakeTable.find(self.location(settings.identifier))
        if table is not None:
            _check_owner(table, topic=settings.topic, mode=settings.mode.value)
        return table

    def open_or_create(self, new: NewTable) -> DeltaLakeTable:
        location = self.location(new.identifier)
        table = DeltaLakeTable.find(location) or self._create(location, new)
        _check_owner(table, topic=new.topic, mode=new.mode)
        return table

    def evolve(self, table: DeltaLakeTable, subject: SubjectSchema) -> None:
        if evolve_delta(table.table, table.target().columns, table.renamed(), subject, name=table.name):
            table.refresh()

    def maintain(
        self, spark: SparkSession, table: DeltaLakeTable, settings: TableSettings, *, with_expiry: bool
    ) -> None:
        """Does nothing: Delta's own tools compact and clean."""

    def _create(self, location: str, new: NewTable) -> DeltaLakeTable:
        """Creates the table. If another pipeline has created it meanwhile, returns that table with its content."""
        from deltalake import DeltaTable

        if "://" not in location:
            Path(location).mkdir(parents=True, exist_ok=True)
        partition_by = (BUCKET_COLUMN,) if new.buckets else _partition_columns(new.partition_by)
        if "_offset" in new.columns.names:
            partition_by = tuple("_partition" if name == "partition" else name for name in partition_by)
        files = DeltaFiles(location, delta_columns(new.columns), partition_by)
        clash = {DAY_COLUMN, BUCKET_COLUMN} & set(partition_by) & set(files.columns.names)
        if clash:
            raise LakeError(f"The schema has a field {min(clash)}, which is a partition column of the Delta table.")
        about = {TOPIC: new.topic, TOPIC_ID: new.topic_id, MODE: new.mode}
        if new.buckets:
            about[_BUCKETS] = str(new.buckets)
        table = DeltaTable.create(
            location,
            schema=files.table_schema(),
            mode="ignore",
            partition_by=list(partition_by),
            description=json.dumps(about),
        )
        return DeltaLakeTable(location, table)


def open_delta(location: str) -> DeltaTable | None:
    """The table; None if it does not exist yet."""
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import TableNotFoundError
    except ImportError:
        raise LakeError("Delta tables need deltalake: run `pip install '.[lake]'` in a checkout of Ottla.") from None
    try:
        return DeltaTable(location)
    except TableNotFoundError:
        return None


def _description(table: DeltaTable) -> Mapping[str, str]:
    """The properties of the topic, from the description of the table. Raises LakeError for another table."""
    try:
        about: dict[str, str] = json.loads(table.metadata().description or "")
        if about[TOPIC] and TOPIC_ID in about:
            return about
    except (ValueError, KeyError, TypeError):
        pass
    raise LakeError(f"{table.table_uri} is not the table of a topic. Choose another name.")


def _application(topic_id: str, partition: int) -> str:
    return f"ottla/{topic_id}/{partition}"


def _in_bucket(bucket: int) -> dict[str, str | None]:
    return {BUCKET_COLUMN: str(bucket)}


def _check_owner(table: DeltaLakeTable, *, topic: str, mode: str) -> None:
    if table.topic != topic:
        raise LakeError(f"{table.name} is the table of topic {table.topic}; set topic.{topic}.table to another name.")
    if table.mode != mode:
        raise LakeError(
            f"{table.name} was made with mode = {table.mode}, and topic {topic} has mode = {mode} now: "
            f"set topic.{topic}.table to another name."
        )


def _partition_columns(fields: Sequence[str]) -> tuple[str, ...]:
    columns = []
    for text in fields:
        if _DAY.fullmatch(text):
            columns.append(DAY_COLUMN)
        elif text in ("partition", "_partition"):
            columns.append("partition")
        else:
            raise LakeError(f"partition.by has {text!r}; Delta tables have day(timestamp) and partition.")
    return tuple(columns)
