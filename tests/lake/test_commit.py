"""Commits: the table decides which batch counts, regardless of its sender and of lost answers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ottla.lake.catalogs import IcebergStore
from ottla.lake.columns import RAW_SCHEMA
from ottla.lake.errors import LakeError, Overtaken
from ottla.lake.files import DataFileWriter
from ottla.lake.iceberg import IcebergTable
from ottla.lake.stores import NewTable
from ottla.spark.tables import OFFSETS, Position, open_catalog
from tests.support.iceberg_rest import rest_catalog

NAME = ("lake", "orders")


@pytest.fixture
def catalog(tmp_path: Path) -> Any:
    catalog = open_catalog({"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": str(tmp_path)})
    open_or_create(catalog, "orders")
    yield catalog
    catalog.close()


def open_or_create(catalog: Any, topic: str) -> None:
    IcebergStore(catalog).open_or_create(NewTable(identifier=NAME, columns=RAW_SCHEMA, topic=topic, topic_id="id"))


def at(offset: int) -> Position:
    return Position("orders", "id", {0: offset})


def written(table: IcebergTable, offsets: range) -> list[Any]:
    writer = DataFileWriter(table.target())
    count = len(offsets)
    rows = {
        "partition": [0] * count,
        "offset": list(offsets),
        "timestamp": [0] * count,
        "timestamp_type": [0] * count,
        "key": [None] * count,
        "value": [b"%d" % offset for offset in offsets],
        "headers": [[]] * count,
    }
    writer.add(pa.RecordBatch.from_pydict(rows, schema=RAW_SCHEMA))
    return writer.finish()


def land(table: IcebergTable, start: int, end: int, commit_id: str = "") -> None:
    before = at(start) if start else None
    table.commit(written(table, range(start, end)), before, at(end), commit_id=commit_id or f"{start}-{end}")


def offsets(catalog: Any) -> list[int]:
    return sorted(catalog.load_table(NAME).scan().to_arrow()["offset"].to_pylist())


def test_the_position_is_that_of_the_newest_snapshot(catalog: Any) -> None:
    table = IcebergTable(catalog, NAME)
    assert table.position() is None
    land(table, 0, 3)
    land(table, 3, 5)
    assert IcebergTable(catalog, NAME).position() == at(5)
    assert offsets(catalog) == [0, 1, 2, 3, 4]


def test_of_two_pipelines_one_lands_a_batch_and_the_other_is_told(catalog: Any, tmp_path: Path) -> None:
    first, second = IcebergTable(catalog, NAME), IcebergTable(catalog, NAME)
    lost = written(second, range(5))
    land(first, 0, 3)
    with pytest.raises(Overtaken):
        second.commit(lost, None, at(5), commit_id="second")
    assert offsets(catalog) == [0, 1, 2]
    assert second.position() == at(3)
    assert not any(Path(file.file_path).exists() for file in lost)


def test_a_refresh_does_not_hide_another_pipeline(catalog: Any) -> None:
    """A change of the schema refreshes the table after the batch was planned; the catalog then sees no conflict."""
    first, second = IcebergTable(catalog, NAME), IcebergTable(catalog, NAME)
    lost = written(second, range(3))
    land(first, 0, 3)
    second.refresh()
    with pytest.raises(Overtaken):
        second.commit(lost, None, at(3), commit_id="second")
    assert offsets(catalog) == [0, 1, 2]
    assert not any(Path(file.file_path).exists() for file in lost)


def test_a_commit_without_an_answer_is_recognised(catalog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    table = IcebergTable(catalog, NAME)
    commit = catalog.commit_table

    def commit_and_break(*arguments: Any) -> Any:
        commit(*arguments)
        raise ConnectionError("the answer is lost")

    monkeypatch.setattr(catalog, "commit_table", commit_and_break)
    land(table, 0, 3)
    monkeypatch.undo()
    assert offsets(catalog) == [0, 1, 2]
    land(table, 3, 4)
    assert offsets(catalog) == [0, 1, 2, 3]


def test_a_request_that_arrives_late_counts_once(catalog: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog gets the first request after the second: both assert the same snapshot."""
    table, commit = IcebergTable(catalog, NAME), catalog.commit_table
    waiting: list[tuple[Any, ...]] = []

    def commit_late(*arguments: Any) -> Any:
        if not waiting:
            waiting.append(arguments)
            raise TimeoutError("no answer")
        late, waiting[0] = waiting[0], ()
        if late:
            commit(*late)
        return commit(*arguments)

    monkeypatch.setattr(catalog, "commit_table", commit_late)
    land(table, 0, 3)
    assert offsets(catalog) == [0, 1, 2]
    assert table.position() == at(3)


def test_a_snapshot_of_another_tool_moves_no_offsets(catalog: Any) -> None:
    table = IcebergTable(catalog, NAME)
    land(table, 0, 3)
    files = written(table, range(3, 4))
    other = catalog.load_table(NAME)
    with other.transaction() as transaction:
        transaction.delete("offset = 0")
    table.commit(files, at(3), at(4), commit_id="4")
    assert offsets(catalog) == [1, 2, 3]
    assert IcebergTable(catalog, NAME).position() == at(4)


def test_the_position_outlives_its_snapshot(catalog: Any) -> None:
    table = IcebergTable(catalog, NAME)
    land(table, 0, 3)
    ours = table.table.current_snapshot().snapshot_id
    other = catalog.load_table(NAME)
    with other.transaction() as transaction:
        transaction.delete("offset = 0")
    other.maintenance.expire_snapshots().by_id(ours).commit()
    assert IcebergTable(catalog, NAME).position() == at(3)


def test_a_table_with_rows_of_unknown_origin_is_refused(catalog: Any) -> None:
    table = IcebergTable(catalog, NAME)
    transaction = table.table.transaction()
    with transaction.update_snapshot().fast_append() as snapshot:
        for file in written(table, range(3)):
            snapshot.append_data_file(file)
    transaction.commit_transaction()
    with pytest.raises(LakeError, match=OFFSETS):
        IcebergTable(catalog, NAME).position()


def test_the_table_of_another_topic_is_refused(catalog: Any) -> None:
    with pytest.raises(LakeError, match=r"table of topic orders: set topic\.other\.table"):
        open_or_create(catalog, "other")


def test_a_compaction_and_a_batch_do_not_disturb_each_other(catalog: Any) -> None:
    pipeline, compaction = IcebergTable(catalog, NAME), IcebergTable(catalog, NAME)
    land(pipeline, 0, 3)
    land(pipeline, 3, 5)
    compaction.refresh()
    removed = [task.file for task in compaction.table.scan().plan_files()]
    merged = written(compaction, range(5))
    land(pipeline, 5, 6)
    compaction.replace(merged, removed, commit_id="compaction")
    assert (offsets(catalog), compaction.position()) == ([0, 1, 2, 3, 4, 5], at(6))
    late = written(pipeline, range(6, 7))
    pipeline.commit(late, at(6), at(7), commit_id="late")
    assert offsets(catalog) == list(range(7))

    # Files that another compaction has replaced cannot be replaced again: rows would come twice.
    with pytest.raises(Overtaken):
        compaction.replace(written(compaction, range(5)), removed, commit_id="again")
    assert offsets(catalog) == list(range(7))


def test_a_rest_catalog_that_ends_without_an_answer(tmp_path: Path) -> None:
    with rest_catalog(tmp_path) as server:
        catalog = open_catalog({"type": "rest", "uri": server.url, "warehouse": str(tmp_path)})
        open_or_create(catalog, "orders")
        table = IcebergTable(catalog, NAME)
        land(table, 0, 3)
        # The commit lands, its answer does not; the table cannot be asked, so the outcome is not known.
        server.break_after_next_commit()
        with pytest.raises(OSError):
            land(table, 3, 5)
        server.wait()
        server.start()
        table.refresh()
        assert table.position() == at(5)
        # A second driver that has seen less is refused by the catalog.
        assert offsets(catalog) == list(range(5))
        land(table, 5, 6)
        stale = IcebergTable(catalog, NAME)
        land(table, 6, 7)
        with pytest.raises(Overtaken):
            land(stale, 6, 8)
        assert offsets(catalog) == list(range(7))
        catalog.close()
