"""Batches of the JDBC sink, written to SQLite without Spark."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pyarrow

from ottla.connect.api import OffsetRange, Task
from ottla.connect.plugins.connectors.databases.columns import Column, primitive, struct_of
from ottla.connect.plugins.connectors.databases.jdbc_sink import JdbcSinkConnector, JdbcWriter
from ottla.connect.plugins.connectors.databases.sink_batch import BatchPlan, write_batch

KEYS = struct_of([Column(name=name, schema=primitive("int64")) for name in ("left", "right")])


def config(path: Path, **more: str) -> dict[str, str]:
    defaults = {"connection.url": f"jdbc:sqlite:{path}", "auto.create": "true", "insert.mode": "upsert"}
    return defaults | {"pk.mode": "record_key", "delete.enabled": "true"} | more


def written(path: Path, rows: list[tuple[dict[str, int], dict[str, int] | None]], *, first: int = 0) -> None:
    """Writes records of topic `t` whose keys and values have the same two fields."""
    kind = pyarrow.struct([("left", pyarrow.int64()), ("right", pyarrow.int64())])
    end = first + len(rows)
    columns: dict[str, Any] = {
        "key": pyarrow.array([key for key, _ in rows], kind),
        "value": pyarrow.array([value for _, value in rows], kind),
        "topic": ["t"] * len(rows),
        "partition": pyarrow.array([0] * len(rows), pyarrow.int32()),
        "offset": list(range(first, end)),
    }
    plan = BatchPlan(
        settings=dict(JdbcSinkConnector.config_definitions().parse(config(path))),
        connector="c",
        ranges=(OffsetRange("t", 0, first, end),),
        key=KEYS,
        value=KEYS,
    )
    list(write_batch(plan, iter([pyarrow.RecordBatch.from_pydict(columns)])))


def writer(path: Path) -> JdbcWriter:
    jdbc_writer = JdbcSinkConnector().writer(Task(connector="c", number=0, config=config(path)))
    assert isinstance(jdbc_writer, JdbcWriter)
    jdbc_writer.stored_offsets()
    return jdbc_writer


def rows_of(path: Path) -> list[Any]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("SELECT * FROM t ORDER BY 1").fetchall()
    finally:
        connection.close()


def test_rows_that_are_nothing_but_their_key(tmp_path: Path) -> None:
    """For example, a table that only relates two keys."""
    path = tmp_path / "a.db"
    writer(path).close()
    both, other = {"left": 1, "right": 2}, {"left": 3, "right": 4}
    written(path, [(both, both), (other, other), (both, both)])
    assert rows_of(path) == [(1, 2), (3, 4)]
    written(path, [(both, None), (other, other)], first=3)
    assert rows_of(path) == [(3, 4)]


def test_offsets_of_a_topic_that_was_made_again_are_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    target = writer(path)
    old_row, new_row = {"left": 1, "right": 1}, {"left": 2, "right": 2}
    written(path, [(old_row, old_row)], first=100)
    assert target.stored_offsets() == {("t", 0): 101}
    target.forget([("t", 0)])
    assert target.stored_offsets() == {}
    written(path, [(new_row, new_row)])
    target.close()
    assert rows_of(path) == [(1, 1), (2, 2)]
