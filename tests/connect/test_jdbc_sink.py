"""Records as rows of a real PostgreSQL and of SQLite: modes, tables that are made, batches that come again."""

from __future__ import annotations

import datetime
import sqlite3
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from ottla.connect.api import Batch, OffsetRange, Task
from ottla.connect.api.config_definitions import ConfigValue
from ottla.connect.plugins.connectors.databases.jdbc_sink import JdbcSinkConnector, JdbcWriter
from tests.support.postgres import PostgresServer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

DATABASE = "jdbc_sink"
OPEN: list[JdbcWriter] = []
UPSERT = {"insert_mode": "upsert", "pk_mode": "record_key", "pk_fields": "id", "delete_enabled": "true"}


@pytest.fixture(scope="module")
def database(postgres: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    with postgres.database(DATABASE) as connection:
        yield connection


@pytest.fixture(autouse=True)
def closing() -> Iterator[None]:
    """Closes the writers of a test at its end."""
    yield
    while OPEN:
        OPEN.pop().close()


def writer(url: str, connector: str, **more: str) -> JdbcWriter:
    settings = {"connection.url": url, "auto.create": "true", "auto.evolve": "true"}
    settings |= {name.replace("_", "."): text for name, text in more.items()}
    jdbc_writer = JdbcSinkConnector().writer(Task(connector=connector, number=0, config=settings))
    assert isinstance(jdbc_writer, JdbcWriter)
    OPEN.append(jdbc_writer)
    jdbc_writer.stored_offsets()
    return jdbc_writer


def batch(connector: str, first: int, end: int, *, topics: str = "t") -> Batch:
    ranges = tuple(OffsetRange(topic, 0, first, end) for topic in topics.split())
    return Batch(id=0, epoch="e", ranges=ranges, task=Task(connector=connector, number=0, config={}))


def frame(spark: SparkSession, *rows: str, columns: str = "id, name", topic: str = "t", first: int = 0) -> DataFrame:
    """Rows as SQL: '1, null' with a value of null is a tombstone where name is 'gone'."""
    values = ", ".join(f"({row}, {first + place}L)" for place, row in enumerate(rows))
    fields = ", ".join(f"'{name.strip()}', {name.strip()}" for name in columns.split(","))
    return spark.sql(
        f"SELECT id AS key, if(name = 'gone', null, named_struct({fields})) AS value, '{topic}' AS topic, "
        f"0 AS partition, place AS offset FROM VALUES {values} AS t({columns}, place)"
    )


def test_a_batch_is_applied_once_however_often_it_comes(
    plain_spark: SparkSession, database: psycopg.Connection[Any], postgres: PostgresServer
) -> None:
    target = writer(postgres.url(DATABASE), "once", table_name_format="once")
    records = frame(plain_spark, "1, 'a'", "2, 'b'")
    target.write(records, batch("once", 0, 2))
    target.write(records, batch("once", 0, 2))
    assert writer(postgres.url(DATABASE), "once").stored_offsets() == {("t", 0): 2}
    target.write(frame(plain_spark, "1, 'a'", first=2), batch("once", 2, 3))
    assert database.execute("SELECT * FROM once ORDER BY 1").fetchall() == [(1, "a"), (1, "a"), (2, "b")]


def test_what_fails_leaves_nothing_and_what_overlaps_is_refused(
    plain_spark: SparkSession, database: psycopg.Connection[Any], postgres: PostgresServer
) -> None:
    target = writer(postgres.url(DATABASE), "fails", table_name_format="fails", pk_mode="record_key", pk_fields="id")
    with pytest.raises(Exception, match="duplicate key"):
        target.write(frame(plain_spark, "1, 'a'", "1, 'b'"), batch("fails", 0, 2))
    assert target.stored_offsets() == {}
    assert database.execute("SELECT to_regclass('fails')").fetchone() == (None,)
    target.write(frame(plain_spark, "1, 'a'", "2, 'b'"), batch("fails", 0, 2))
    with pytest.raises(Exception, match=r"\.RetriableError: another worker"):
        target.write(frame(plain_spark, "2, 'b'", "3, 'c'"), batch("fails", 1, 3))
    assert database.execute("SELECT count(*) FROM fails").fetchone() == (2,)


def test_upserts_and_deletes_end_with_the_last_word(
    plain_spark: SparkSession, database: psycopg.Connection[Any], postgres: PostgresServer
) -> None:
    target = writer(postgres.url(DATABASE), "last", table_name_format="last", **UPSERT)
    rows = ("1, 'a'", "2, 'b'", "1, 'c'", "3, 'd'", "3, 'gone'", "2, 'gone'", "2, 'e'", "9, 'gone'")
    target.write(frame(plain_spark, *rows), batch("last", 0, 8))
    assert database.execute("SELECT * FROM last ORDER BY 1").fetchall() == [(1, "c"), (2, "e")]
    target.write(frame(plain_spark, "1, 'gone'", first=8), batch("last", 8, 9))
    assert database.execute("SELECT * FROM last ORDER BY 1").fetchall() == [(2, "e")]
    updating = UPSERT | {"insert_mode": "update"}
    target = writer(postgres.url(DATABASE), "last", table_name_format="last", **updating)
    target.write(frame(plain_spark, "2, 'f'", "5, 'nobody'", first=9), batch("last", 9, 11))
    assert database.execute("SELECT * FROM last ORDER BY 1").fetchall() == [(2, "f")]
    with pytest.raises(Exception, match=r"delete\.enabled"):
        writer(postgres.url(DATABASE), "kept", table_name_format="last").write(
            frame(plain_spark, "1, 'gone'"), batch("kept", 0, 1)
        )


def test_tables_and_columns_are_made_as_they_are_needed(
    plain_spark: SparkSession, database: psycopg.Connection[Any], postgres: PostgresServer
) -> None:
    target = writer(postgres.url(DATABASE), "made", table_name_format="public.made_${topic}", pk_mode="kafka")
    columns = "id, name, price, at, seen, yes, data, tags"
    row = (
        "7, 'x', 1.50BD, DATE'2024-01-02', TIMESTAMP'2024-01-02 03:04:05.678 UTC', true, X'00FF', "
        "array(named_struct('a', 1))"
    )
    target.write(frame(plain_spark, row, columns=columns), batch("made", 0, 1))
    stored = database.execute("SELECT * FROM made_t").fetchone()
    assert stored == (
        "t", 0, 0, 7, "x", Decimal("1.50"), datetime.date(2024, 1, 2),
        datetime.datetime.fromisoformat("2024-01-02 03:04:05.678"), True, b"\x00\xff", [{"a": 1}],
    )  # fmt: skip
    target.write(frame(plain_spark, "8, 'y', 2L", columns="id, name, more", first=1), batch("made", 1, 2))
    assert database.execute("SELECT name, more, price FROM made_t ORDER BY id").fetchall() == [
        ("x", None, Decimal("1.50")),
        ("y", 2, None),
    ]
    strict = {"auto_create": "false", "auto_evolve": "false"}
    with pytest.raises(Exception, match=r"auto\.create is false"):
        writer(postgres.url(DATABASE), "made2", table_name_format="not_there", **strict).write(
            frame(plain_spark, "1, 'a'"), batch("made2", 0, 1)
        )
    with pytest.raises(Exception, match=r"has no column other, and auto\.evolve is false"):
        writer(
            postgres.url(DATABASE), "made3", table_name_format="made_t", fields_whitelist="id,other", **strict
        ).write(frame(plain_spark, "1, 'a', 1", columns="id, name, other"), batch("made3", 0, 1))


def test_topics_with_different_fields_get_their_own_columns(
    plain_spark: SparkSession, database: psycopg.Connection[Any], postgres: PostgresServer
) -> None:
    columns = "id, name, of_a, of_b"
    records = frame(plain_spark, "1, 'a', 1, null", columns=columns, topic="topic_a").union(
        frame(plain_spark, "2, 'b', null, 2", columns=columns, topic="topic_b")
    )
    writer(postgres.url(DATABASE), "several").write(records, batch("several", 0, 1, topics="topic_a topic_b"))
    assert database.execute("SELECT * FROM topic_a").fetchall() == [(1, "a", 1)]
    assert database.execute("SELECT * FROM topic_b").fetchall() == [(2, "b", 2)]


def test_offsets_change_with_the_target(database: psycopg.Connection[Any], postgres: PostgresServer) -> None:
    connector = JdbcSinkConnector()
    config = {"name": "moved", "connection.url": postgres.url(DATABASE)}
    first_partition, second_partition = (
        {"kafka_topic": "t", "kafka_partition": 0},
        {"kafka_topic": "t", "kafka_partition": 1},
    )
    assert connector.alter_offsets(
        config, [(first_partition, {"kafka_offset": 5}), (second_partition, {"kafka_offset": 6})]
    )
    assert writer(postgres.url(DATABASE), "moved").stored_offsets() == {("t", 0): 5, ("t", 1): 6}
    assert connector.alter_offsets(config, [(first_partition, None)])
    assert writer(postgres.url(DATABASE), "moved").stored_offsets() == {("t", 1): 6}


def test_settings_that_do_not_go_together_are_refused() -> None:
    connector = JdbcSinkConnector()

    def errors(**config: str) -> list[str]:
        settings = {name.replace("_", "."): text for name, text in config.items()}
        values = {
            definition.name: ConfigValue(name=definition.name, value=None, recommended=[], errors=[])
            for definition in connector.config_definitions()
        }
        connector.validate(settings, values)
        return [name for name, value in values.items() if value.errors]

    assert errors(insert_mode="upsert") == ["pk.mode"]
    assert errors(delete_enabled="true", pk_mode="record_value", pk_fields="a") == ["delete.enabled"]
    assert errors(pk_mode="record_value") == ["pk.fields"]
    assert errors(pk_mode="kafka", pk_fields="a,b") == ["pk.fields"]
    assert errors(insert_mode="upsert", pk_mode="record_key", delete_enabled="true") == []


def test_sqlite_as_a_target(plain_spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    target = writer(f"jdbc:sqlite:{path}", "small", **UPSERT)
    columns = "id, name, price, at, seen"
    rows = [f"{number}, 'n{number}', 1.50BD, DATE'2024-01-02', TIMESTAMP'2024-01-02 03:04:05 UTC'" for number in (1, 2)]
    records = frame(plain_spark, *rows, "1, 'gone', null, null, null", columns=columns)
    for _ in range(2):
        target.write(records, batch("small", 0, 3))
    target.close()
    with sqlite3.connect(path) as connection:
        stored = connection.execute("SELECT * FROM t").fetchall()
        offsets = connection.execute("SELECT * FROM ottla_connect_offsets").fetchall()
    connection.close()
    assert stored == [(2, "n2", 1.5, "2024-01-02", "2024-01-02 03:04:05.000")]
    assert offsets == [("small", "t", 0, 3)]
