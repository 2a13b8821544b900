"""Readers that take the table of a topic range by range: a history in order, and the backfill of a topic."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import DataScan

from ottla.lake.catalogs import IcebergStore
from ottla.lake.columns import RAW_SCHEMA
from ottla.lake.files import DataFileWriter
from ottla.lake.stores import NewTable
from ottla.model.ids import TopicPartition
from ottla.spark.source.history import History, read_piece_in_order, whole_piece
from ottla.spark.tables import Position, open_catalog

NAME = ("lake", "orders")


@pytest.fixture
def history(tmp_path: Path) -> Any:
    """A table with a file for every ten offsets of two partitions."""
    catalog = open_catalog({"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": str(tmp_path)})
    table = IcebergStore(catalog).open_or_create(
        NewTable(identifier=NAME, columns=RAW_SCHEMA, topic="orders", topic_id="id")
    )
    before = None
    for start in range(0, 40, 10):
        files = []
        for partition in (0, 1):
            writer = DataFileWriter(table.target())
            rows: list[dict[str, Any]] = [
                {"partition": partition, "offset": offset, "timestamp": 0, "timestamp_type": 0, "headers": []}
                for offset in range(start, start + 10)
            ]
            writer.add(pa.RecordBatch.from_pylist(rows, schema=RAW_SCHEMA))
            files += writer.finish()
        after = Position("orders", "id", {0: start + 10, 1: start + 10})
        table.commit(files, before, after, commit_id=str(start))
        before = after
        table.refresh()
    assert before is not None
    snapshot = table.table.current_snapshot()
    assert snapshot is not None
    yield History(table.table, before, snapshot.snapshot_id)
    catalog.close()


def test_the_manifests_are_read_once_for_all_ranges(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    plans: list[None] = []
    plan_files = DataScan.plan_files

    def counted(scan: DataScan) -> Any:
        plans.append(None)
        return plan_files(scan)

    monkeypatch.setattr(DataScan, "plan_files", counted)
    for partition in (0, 1):
        for start in range(0, 40, 8):
            piece = whole_piece(history, TopicPartition("orders", partition), start, start + 8)
            # Only files with rows of the range are opened.
            assert len(piece.tasks) == (start + 7) // 10 - start // 10 + 1
            records = [row for batch in read_piece_in_order(piece) for row in batch.to_pylist()]
            places = [(row["partition"], row["offset"]) for row in records]
            assert places == [(partition, offset) for offset in range(start, start + 8)]
    assert len(plans) == 1
