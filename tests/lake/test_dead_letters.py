"""The table of dead letters has a position of its own, which may differ from that of the table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from ottla.lake.catalogs import IcebergStore
from ottla.lake.columns import DEAD_LETTER_SCHEMA
from ottla.lake.iceberg import IcebergTable
from ottla.lake.pipeline import TablePipeline
from ottla.lake.planning import PlannedBatch
from ottla.lake.settings import read_settings
from ottla.lake.tasks import DeadLetterWriter, LandingJob, WrittenBatch
from ottla.spark.tables import Position, open_catalog

NAME = ("lake", "orders")
DEAD = ("lake", "orders_dead_letters")

Place = tuple[int, int]
"""The partition and the offset of a record."""


class Lake:
    """A table in the mode upsert. Batches are given, and tasks run without Spark."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        given = {"bootstrap.servers": "localhost:1", "warehouse": str(directory), "mode": "upsert"}
        self._settings = read_settings(given)
        self._monkeypatch = monkeypatch
        self.catalog: Any = open_catalog(self._settings.catalog)

    def step(self, after: Mapping[int, int], *dead: Place, topic_id: str = "id") -> None:
        """A new pipeline lands a batch up to these offsets, with these dead letters."""

        def write(_spark: Any, job: LandingJob, **_: Any) -> WrittenBatch:
            writer = DeadLetterWriter(job.dead)
            writer.add(_rows(dead))
            return WrittenBatch(dead=writer.finish(), records=len(dead))

        batch = PlannedBatch((), Position("orders", topic_id, after), lag=1)
        self._monkeypatch.setattr("ottla.lake.pipeline.plan_batch", lambda *_, **__: batch)
        self._monkeypatch.setattr("ottla.lake.pipeline.upsert_records", write)
        spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=1))
        settings = self._settings.table("orders", {})
        TablePipeline(spark, IcebergStore(self.catalog), self._settings, settings).step()

    def dead_letters(self) -> list[Place]:
        rows = self.catalog.load_table(DEAD).scan().to_arrow().to_pylist()
        return sorted((row["partition"], row["offset"]) for row in rows)


def _rows(places: tuple[Place, ...]) -> pa.RecordBatch:
    rows = [
        {"partition": partition, "offset": offset, "timestamp": 0, "timestamp_type": 0, "headers": []}
        for partition, offset in places
    ]
    return pa.RecordBatch.from_pylist(rows, schema=DEAD_LETTER_SCHEMA)


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    found = Lake(tmp_path, monkeypatch)
    yield found
    found.catalog.close()


def test_dead_letters_of_a_topic_that_was_made_again_are_not_known_yet(lake: Lake) -> None:
    lake.step({0: 100}, (0, 50))
    lake.catalog.drop_table(NAME)
    lake.step({0: 10}, (0, 7), topic_id="new")
    assert lake.dead_letters() == [(0, 7), (0, 50)]
    assert IcebergTable(lake.catalog, DEAD).position() == Position("orders", "new", {0: 10})


def test_a_repeated_batch_that_ends_elsewhere_brings_no_dead_letter_again(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = IcebergTable.commit

    def killed_between(table: IcebergTable, *arguments: Any, **options: Any) -> None:
        if not table.name.endswith("_dead_letters"):
            raise SystemExit
        commit(table, *arguments, **options)

    with monkeypatch.context() as killed:
        killed.setattr(IcebergTable, "commit", killed_between)
        with pytest.raises(SystemExit):
            lake.step({0: 100, 1: 100}, (0, 80), (1, 20))
    lake.step({0: 60, 1: 140}, (1, 20), (1, 120))
    lake.step({0: 150, 1: 140}, (0, 80), (0, 110))
    assert lake.dead_letters() == [(0, 80), (0, 110), (1, 20), (1, 120)]
