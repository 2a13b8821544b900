"""The interfaces of table formats for pipelines. Iceberg (`iceberg`, `catalogs`) and Delta (`delta`) implement them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from ottla.lake.files import RowTarget
from ottla.spark.tables import Position

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession

    from ottla.lake.settings import TableSettings
    from ottla.lake.subjects import SubjectSchema

__all__ = ["LakeTable", "NewTable", "TableStore"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTable:
    """The table of a topic that does not exist yet."""

    identifier: tuple[str, ...]
    columns: pyarrow.Schema
    topic: str
    topic_id: str
    mode: str = "raw"
    partition_by: Sequence[str] = ()
    buckets: int = 0
    """The number of partitions by the key, for a table with a row for each key; 0 for other tables."""


class LakeTable(Protocol):
    """A table as it was at the last `refresh`. Only `refresh` and `commit` see changes of other writers."""

    @property
    def name(self) -> str: ...

    def refresh(self) -> None: ...

    def position(self) -> Position | None:
        """The position; None before the first batch. Raises LakeError if the table is not that of a topic."""
        ...

    def target(self) -> RowTarget: ...

    def renamed(self) -> Mapping[str, str]:
        """Columns by the names that they had in older schemas."""
        ...

    def buckets(self) -> int:
        """The number of buckets at the creation of the table, which later settings do not change. Raises LakeError."""
        ...

    def files_by_bucket(self) -> Mapping[int, Sequence[Any]]:
        """The files of each bucket, as `RowTarget.read` takes them."""
        ...

    def files_at(self, paths: Sequence[str]) -> Sequence[Any]:
        """The files at these paths, as `commit` takes removed files."""
        ...

    def places(self, first: int, end: int) -> pyarrow.Table:
        """Partition and offset of the rows with offsets from `first` to below `end`, in a table with raw columns."""
        ...

    def commit(
        self,
        added: Sequence[Any],
        expected: Position | None,
        after: Position,
        *,
        commit_id: str,
        removed: Sequence[Any] = (),
    ) -> None:
        """Adds files and moves the position at once. Raises Overtaken, or an error of unknown outcome."""
        ...


class TableStore(Protocol):
    """The tables of one format."""

    def find(self, settings: TableSettings) -> LakeTable | None:
        """The table of a topic; None if it does not exist yet. Raises LakeError if it has another topic or mode."""
        ...

    def open_or_create(self, new: NewTable) -> LakeTable:
        """The table, created if necessary. Raises LakeError if it has another topic or mode."""
        ...

    def evolve(self, table: Any, subject: SubjectSchema) -> None:
        """Changes the columns of a table to those of the subject, if necessary. Raises LakeError if it cannot."""
        ...

    def maintain(self, spark: SparkSession, table: Any, settings: TableSettings, *, with_expiry: bool) -> None:
        """Compaction and expiry, as far as the settings enable them."""
        ...
