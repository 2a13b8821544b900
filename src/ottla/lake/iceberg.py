"""An Iceberg table and its position.

A batch is one snapshot. It is sent only while the table has the position that the batch was planned on, and asserts the
snapshot with that position, so of two pipelines that write the same offsets one fails. After a failure, or without an
answer, the table itself shows the outcome: the commit is there, or the position is unchanged and the commit may be
repeated, or another pipeline has moved the position.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.lake.errors import LakeError, Overtaken
from ottla.lake.evolution import RENAMED
from ottla.lake.files import IcebergFiles
from ottla.spark.tables import COMMIT, Position, TableFiles, ancestors, newest_position, summary_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask, Table

__all__ = ["IcebergTable"]

log = logging.getLogger(__name__)

_COMMIT_ATTEMPTS = 5
# The library repeats a failed append on the newest snapshot by itself, without checking the position.
_LIBRARY_RETRIES = "commit.retry.num-retries"


class IcebergTable:
    """A table of a catalog. Only `refresh` and `commit` see changes of other writers."""

    def __init__(self, catalog: Catalog, identifier: tuple[str, ...]) -> None:
        self._catalog = catalog
        self.identifier = identifier
        self._table: Table = catalog.load_table(identifier)
        self._disable_retries()

    @property
    def name(self) -> str:
        return ".".join(self.identifier)

    @property
    def table(self) -> Table:
        return self._table

    def refresh(self) -> None:
        self._table = self._catalog.load_table(self.identifier)
        self._disable_retries()

    def position(self) -> Position | None:
        """Raises LakeError if the table is not that of a topic."""
        return newest_position(self._table)

    def target(self) -> IcebergFiles:
        table = self._table
        return IcebergFiles(table.metadata, dict(table.io.properties))

    def renamed(self) -> dict[str, str]:
        names: dict[str, str] = json.loads(self._table.properties.get(RENAMED, "{}"))
        return names

    def buckets(self) -> int:
        from pyiceberg.transforms import BucketTransform

        specs = list(self._table.specs().values())
        fields = specs[0].fields
        if len(specs) > 1 or len(fields) != 1 or not isinstance(fields[0].transform, BucketTransform):
            raise LakeError(
                f"The partitions of table {self.name} were changed: a table with a row for each key is partitioned by "
                "a bucket of the key alone."
            )
        count: int = fields[0].transform.num_buckets
        return count

    def files_by_bucket(self) -> dict[int, list[FileScanTask]]:
        tasks_by_bucket: dict[int, list[FileScanTask]] = {}
        for task in self._table.scan().plan_files():
            # The bucket of the key is the only field of the partition.
            tasks_by_bucket.setdefault(task.file.partition[0], []).append(task)
        return tasks_by_bucket

    def files_at(self, paths: Sequence[str]) -> list[DataFile]:
        wanted = set(paths)
        return [task.file for task in self._table.scan().plan_files() if task.file.file_path in wanted] if paths else []

    def places(self, first: int, end: int) -> pa.Table:
        import pyarrow as pa
        from pyiceberg.expressions import And, GreaterThanOrEqual, LessThan

        row_filter = And(GreaterThanOrEqual("offset", first), LessThan("offset", end))
        earlier = self._files_of_earlier_topic()
        scan = self._table.scan(row_filter=row_filter, selected_fields=("partition", "offset"))
        if not earlier:
            return scan.to_arrow()
        files, columns = TableFiles.of(self._table), ("partition", "offset")
        tasks = [task for task in scan.plan_files() if task.file.file_path not in earlier]
        rows = [files.read(task, columns, row_filter=row_filter) for task in tasks]
        return pa.concat_tables(rows) if rows else files.arrow_schema(columns).empty_table()

    def _files_of_earlier_topic(self) -> set[str]:
        """Files with records of a deleted topic of the same name, whose offsets mean other records."""
        position = self.position()
        for snapshot in ancestors(self._table) if position is not None else ():
            earlier = Position.from_properties(summary_of(snapshot))
            if earlier is not None and position is not None and earlier.topic_id != position.topic_id:
                scan = self._table.scan(snapshot_id=snapshot.snapshot_id)
                return {task.file.file_path for task in scan.plan_files()}
        return set()

    def commit(
        self,
        added: Sequence[DataFile],
        expected: Position | None,
        after: Position,
        *,
        commit_id: str,
        removed: Sequence[DataFile] = (),
    ) -> None:
        """Adds files and moves the position, in one snapshot. Raises Overtaken, or an error of unknown outcome."""
        for attempt in range(_COMMIT_ATTEMPTS):
            # A refresh since the batch was planned may have brought a snapshot of another pipeline. The catalog would
            # accept this batch on top of it.
            self._require_position(expected, added)
            try:
                self._try_commit(added, removed, after, commit_id)
            except Exception as error:
                log.info("Commit to %s failed: %s", self.name, error)
                self.refresh()
                if self._has_commit(commit_id):
                    return
                self._require_position(expected, added)
                # If the commit leaves the position unchanged, the position cannot show a commit of another pipeline.
                is_last = attempt == _COMMIT_ATTEMPTS - 1 or after == expected
                if is_last or (removed and not self._has_files(removed)):
                    raise
            else:
                return

    def replace(self, added: Sequence[DataFile], removed: Sequence[DataFile], *, commit_id: str) -> None:
        """Replaces files by files with the same rows; the position stays. Raises Overtaken, or the last error."""
        for attempt in range(_COMMIT_ATTEMPTS):
            position = self.position()
            assert position is not None, "a table with files has a position"
            try:
                self._try_commit(added, removed, position, commit_id)
            except Exception as error:
                self.refresh()
                if self._has_commit(commit_id):
                    return
                if not self._has_files(removed):
                    self._delete(added)
                    raise Overtaken(f"Files of table {self.name} were replaced meanwhile.") from error
                if attempt == _COMMIT_ATTEMPTS - 1:
                    raise
            else:
                return

    def _try_commit(
        self, added: Sequence[DataFile], removed: Sequence[DataFile], after: Position, commit_id: str
    ) -> None:
        properties = after.to_properties()
        transaction = self._table.transaction()
        update = transaction.update_snapshot(snapshot_properties={**properties, COMMIT: commit_id})
        with update.overwrite() if removed else update.merge_append() as snapshot:
            for file in removed:
                snapshot.delete_data_file(file)
            for file in added:
                snapshot.append_data_file(file)
        transaction.set_properties(properties)
        transaction.commit_transaction()

    def _require_position(self, expected: Position | None, added: Sequence[DataFile]) -> None:
        """Raises Overtaken, and deletes the files of the batch, if the table has another position."""
        if self.position() != expected:
            self._delete(added)
            raise Overtaken(f"Another pipeline writes to table {self.name}.")

    def _has_commit(self, commit_id: str) -> bool:
        return any(summary_of(snapshot).get(COMMIT) == commit_id for snapshot in ancestors(self._table))

    def _has_files(self, files: Sequence[DataFile]) -> bool:
        present = {task.file.file_path for task in self._table.scan().plan_files()}
        return all(file.file_path in present for file in files)

    def _delete(self, files: Sequence[DataFile]) -> None:
        """Deletes files that no snapshot has. A failed deletion is logged."""
        for file in files:
            try:
                self._table.io.delete(file.file_path)
            except OSError as error:
                log.warning("Unused file %s remains: %s", file.file_path, error)

    def _disable_retries(self) -> None:
        # In memory only: other writers of the table keep their retries.
        self._table.metadata.properties[_LIBRARY_RETRIES] = "0"
