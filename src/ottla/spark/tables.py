"""Tables of topics (`ottla.lake`), as far as readers of topics need them: catalogs, positions, rows of data files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import FileScanTask, Table
    from pyiceberg.table.metadata import TableMetadata

__all__ = [
    "COMMIT",
    "MODE",
    "OFFSETS",
    "TOPIC",
    "TOPIC_ID",
    "LakeError",
    "Position",
    "TableFiles",
    "ancestors",
    "newest_position",
    "open_catalog",
    "summary_of",
]

TOPIC = "ottla.topic"
TOPIC_ID = "ottla.topic-id"
MODE = "ottla.mode"
OFFSETS = "ottla.offsets"
COMMIT = "ottla.commit"
"""The identity of a batch, by which a commit without an answer is recognised."""

_CATALOG = "ottla"


class LakeError(Exception):
    """A table cannot be kept or read as it is configured; the message says why. A repetition would fail, too."""


@dataclass(frozen=True, slots=True)
class Position:
    """The table contains exactly the records of the topic below these offsets.

    A snapshot of the table has the offsets in its summary, so a reader of any snapshot knows which records it contains,
    and a pipeline that starts knows where to continue. There is no other checkpoint.
    """

    topic: str
    topic_id: str = ""
    offsets: Mapping[int, int] = field(default_factory=dict)

    def to_properties(self) -> dict[str, str]:
        offsets = {str(partition): offset for partition, offset in sorted(self.offsets.items())}
        return {
            TOPIC: self.topic,
            TOPIC_ID: self.topic_id,
            OFFSETS: json.dumps(offsets, separators=(",", ":")),
        }

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Position | None:
        """The position in the properties; None if they have none. Raises LakeError."""
        text = properties.get(OFFSETS)
        if text is None:
            return None
        try:
            offsets = {int(partition): int(offset) for partition, offset in json.loads(text).items()}
        except (ValueError, AttributeError, TypeError):
            raise LakeError(f"The table's property {OFFSETS} is {text!r}, not offsets by partition.") from None
        return cls(properties.get(TOPIC, ""), properties.get(TOPIC_ID, ""), offsets)


def open_catalog(properties: Mapping[str, str]) -> Catalog:
    """The catalog of these properties of pyiceberg. The directory of a local catalog is made if necessary."""
    try:
        from pyiceberg.catalog import load_catalog
    except ImportError:
        raise LakeError("Lake tables need pyiceberg: run `pip install '.[lake]'` in a checkout of Ottla.") from None

    file = re.fullmatch(r"sqlite:///(/.*)", properties.get("uri", ""))
    if file is not None:
        Path(file[1]).parent.mkdir(parents=True, exist_ok=True)
    return load_catalog(_CATALOG, **properties)


def newest_position(table: Table) -> Position | None:
    """The position of the newest snapshot that has one. Snapshots of other tools move no offsets. Raises LakeError."""
    for snapshot in ancestors(table):
        position = Position.from_properties(summary_of(snapshot))
        if position is not None:
            return position
    # The snapshots that had offsets may have expired, behind the snapshot of a compaction by another tool.
    position = Position.from_properties(table.properties)
    if position is None and table.current_snapshot() is not None:
        raise LakeError(
            f"Table {'.'.join(table.name())} has rows, and no property {OFFSETS}: it is not the table of a topic."
        )
    return position


def ancestors(table: Table) -> Iterator[Any]:
    """The current snapshot and those before it."""
    snapshot = table.current_snapshot()
    if snapshot is None:
        return
    yield snapshot
    # `table.snapshot_by_id` searches the whole list for every snapshot.
    snapshots = {known.snapshot_id: known for known in table.snapshots()}
    while (snapshot := snapshots.get(snapshot.parent_snapshot_id)) is not None:
        yield snapshot


def summary_of(snapshot: Any) -> Mapping[str, str]:
    summary = snapshot.summary
    return {} if summary is None else summary.additional_properties


@dataclass(frozen=True, slots=True)
class TableFiles:
    """What executors need to read and write files of a table: small values that travel to them."""

    metadata: TableMetadata
    io_properties: Mapping[str, str]

    @classmethod
    def of(cls, table: Table) -> TableFiles:
        return cls(table.metadata, dict(table.io.properties))

    def read(self, task: FileScanTask, columns: Sequence[str] | None = None, *, row_filter: Any = None) -> pa.Table:
        """The rows of a data file, with the present columns of the table."""
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan

        schema = self.metadata.schema()
        wanted = schema if columns is None else schema.select(*columns)
        # Not part of what is pickled.
        task.file.spec_id = self.metadata.default_spec_id
        rows = ArrowScan(self.metadata, self.io(), wanted, row_filter or AlwaysTrue()).to_table([task])
        # Strings of an empty result have another type than those of a result with rows.
        return rows.cast(self.arrow_schema(columns))

    def arrow_schema(self, columns: Sequence[str] | None = None) -> pa.Schema:
        """The columns of the table, in the types that `read` gives."""
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        schema = self.metadata.schema()
        wanted = schema if columns is None else schema.select(*columns)
        pyarrow_schema: pa.Schema = schema_to_pyarrow(wanted, include_field_ids=False)
        return pyarrow_schema

    def io(self) -> Any:
        from pyiceberg.io import load_file_io

        return load_file_io(dict(self.io_properties), self.metadata.location)
