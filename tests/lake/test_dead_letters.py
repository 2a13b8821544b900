"""The table of dead letters has a position of its own, which may differ from that of the table."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from ottla.lake.catalogs import IcebergStore
from ottla.lake.columns import DEAD_LETTER_SCHEMA
from ottla.lake.delta import DeltaLakeTable, DeltaStore
from ottla.lake.iceberg import IcebergTable
from ottla.lake.pipeline import TablePipeline
from ottla.lake.planning import PlannedBatch
from ottla.lake.settings import read_settings
from ottla.lake.stores import TableStore
from ottla.lake.tasks import DeadLetterWriter, LandingJob, WrittenBatch
from ottla.spark.tables import Position, open_catalog

NAME = ("lake", "orders")
DEAD = ("lake", "orders_dead_letters")

Place = tuple[int, int]
"""The partition and the offset of a record."""


class Lake:
    """A table in the mode upsert. The test chooses the batches, and tasks run without Spark."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        properties = {"bootstrap.servers": "localhost:1", "warehouse": str(directory), "mode": "upsert"}
        self._settings = read_settings(properties)
        self._monkeypatch = monkeypatch
        self.catalog: Any = open_catalog(self._settings.catalog)
        self.store: TableStore = IcebergStore(self.catalog)

    def pipeline(self) -> TablePipeline:
        spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=1))
        return TablePipeline(spark, self.store, self._settings, self._settings.table("orders", {}))

    def step(
        self, after: Mapping[int, int], *dead: Place, topic_id: str = "id", pipeline: TablePipeline | None = None
    ) -> None:
        """A pipeline, by default a new one, lands a batch up to these offsets, with these dead letters."""

        def write(_spark: Any, job: LandingJob, **_: Any) -> WrittenBatch:
            writer = DeadLetterWriter(job.dead)
            writer.add(_rows(dead))
            return WrittenBatch(dead=writer.finish(), records=len(dead))

        batch = PlannedBatch(((),), Position("orders", topic_id, after), lag=1)
        self._monkeypatch.setattr("ottla.lake.pipeline.plan_batch", lambda *_, **__: batch)
        self._monkeypatch.setattr("ottla.lake.pipeline.upsert_records", write)
        (pipeline or self.pipeline()).step()

    def dead_letters(self) -> list[Place]:
        if isinstance(self.store, DeltaStore):
            rows = DeltaTable(self.store.location(DEAD)).to_pyarrow_table().to_pylist()
        else:
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
    new_lake = Lake(tmp_path, monkeypatch)
    yield new_lake
    new_lake.catalog.close()


@contextmanager
def killed_between(kind: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A pipeline ends after the commit of dead letters, before that of the table."""
    commit = kind.commit

    def commit_dead_letters(table: Any, *arguments: Any, **options: Any) -> None:
        if not table.name.endswith("_dead_letters"):
            raise SystemExit
        commit(table, *arguments, **options)

    with monkeypatch.context() as killed:
        killed.setattr(kind, "commit", commit_dead_letters)
        with pytest.raises(SystemExit):
            yield


def test_dead_letters_of_a_topic_that_was_made_again_are_not_known_yet(lake: Lake) -> None:
    lake.step({0: 100}, (0, 50))
    lake.catalog.drop_table(NAME)
    lake.step({0: 10}, (0, 7), topic_id="new")
    assert lake.dead_letters() == [(0, 7), (0, 50)]
    assert IcebergTable(lake.catalog, DEAD).position() == Position("orders", "new", {0: 10})


def test_dead_letters_of_a_deleted_topic_hide_none_of_a_repeated_batch(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record of the new topic is bad in the repetition alone, where the old topic had a dead letter."""
    lake.step({0: 100}, (0, 5), (0, 50))
    lake.catalog.drop_table(NAME)
    with killed_between(IcebergTable, monkeypatch):
        lake.step({0: 100}, (0, 80), topic_id="new")
    lake.step({0: 100}, (0, 50), (0, 80), topic_id="new")
    assert lake.dead_letters() == [(0, 5), (0, 50), (0, 50), (0, 80)]
    lake.step({0: 120}, (0, 110), topic_id="new")
    assert lake.dead_letters() == [(0, 5), (0, 50), (0, 50), (0, 80), (0, 110)]


def test_a_repeated_batch_that_ends_elsewhere_brings_no_dead_letter_again(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with killed_between(IcebergTable, monkeypatch):
        lake.step({0: 100, 1: 100}, (0, 80), (1, 20))
    lake.step({0: 60, 1: 140}, (1, 20), (1, 120))
    lake.step({0: 150, 1: 140}, (0, 80), (0, 110))
    assert lake.dead_letters() == [(0, 80), (0, 110), (1, 20), (1, 120)]


@pytest.fixture(params=["iceberg", "delta"])
def kind(request: pytest.FixtureRequest, lake: Lake, tmp_path: Path) -> Any:
    """The class of the lake's tables."""
    if request.param == "iceberg":
        return IcebergTable
    lake.store = DeltaStore(f"{tmp_path}/delta")
    return DeltaLakeTable


def test_a_record_that_is_bad_in_the_repetition_alone_is_a_dead_letter(
    lake: Lake, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The registry may have refused a schema meanwhile. The table does not have the record either."""
    lake.step({0: 10, 1: 10}, (0, 5))
    with killed_between(kind, monkeypatch):
        lake.step({0: 100, 1: 100}, (0, 80), (1, 20))
    lake.step({0: 100, 1: 100}, (0, 50), (0, 80), (1, 20), (1, 80))
    lake.step({0: 120, 1: 100}, (0, 110))
    assert lake.dead_letters() == [(0, 5), (0, 50), (0, 80), (0, 110), (1, 20), (1, 80)]


def test_dead_letters_of_a_repetition_whose_commit_fails_are_neither_lost_nor_doubled(
    lake: Lake, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The position of the dead letters stays the same, so it does not tell whether the commit was made."""
    with killed_between(kind, monkeypatch):
        lake.step({0: 100}, (0, 80))
    commit = kind._try_commit

    for is_made in (False, True):

        def fails(table: Any, *arguments: Any, is_made: bool = is_made) -> None:
            is_dead = table.name.endswith("_dead_letters")
            if is_made == is_dead:
                commit(table, *arguments)
            if is_made or is_dead:
                raise OSError("no answer")

        with monkeypatch.context() as failing:
            failing.setattr(kind, "_try_commit", fails)
            with pytest.raises(OSError, match="no answer"):
                lake.step({0: 100}, (0, 50), (0, 80))
        assert lake.dead_letters() == ([(0, 50), (0, 80)] if is_made else [(0, 80)])
    lake.step({0: 100}, (0, 50), (0, 80))
    assert lake.dead_letters() == [(0, 50), (0, 80)]


def test_two_pipelines_that_repeat_a_batch_bring_its_dead_letters_once(
    lake: Lake, kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with killed_between(kind, monkeypatch):
        lake.step({0: 100}, (0, 80))
    commit = kind._try_commit

    def overtaken(table: Any, *arguments: Any) -> None:
        monkeypatch.setattr(kind, "_try_commit", commit)
        lake.step({0: 100}, (0, 50), (0, 80))
        commit(table, *arguments)

    monkeypatch.setattr(kind, "_try_commit", overtaken)
    with pytest.raises(Exception, match=r"branch main has changed|Failed to commit"):
        lake.step({0: 100}, (0, 50), (0, 80))
    assert lake.dead_letters() == [(0, 50), (0, 80)]


def test_a_running_pipeline_makes_the_table_of_dead_letters_again(lake: Lake, kind: Any, tmp_path: Path) -> None:
    pipeline = lake.pipeline()
    lake.step({0: 100}, (0, 50), pipeline=pipeline)
    if kind is IcebergTable:
        lake.catalog.drop_table(DEAD)
    else:
        shutil.rmtree(tmp_path / "delta" / "/".join(DEAD))
    lake.step({0: 200}, (0, 150), pipeline=pipeline)
    assert lake.dead_letters() == [(0, 150)]
