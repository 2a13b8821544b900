"""Rows of a real PostgreSQL and of SQLite as records: modes, types, tables that come, ranges that are read again."""

from __future__ import annotations

import datetime
import json
import sqlite3
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from ottla.connect.api import ConnectError, ReadLimit, RetriableError, SourceOffset, Task
from ottla.connect.api.config_definitions import ConfigError
from ottla.connect.plugins.connectors.databases.jdbc_source import JdbcReader, JdbcSourceConnector
from tests.support.postgres import PostgresServer

if TYPE_CHECKING:
    import pyarrow

pytestmark = pytest.mark.spark

DATABASE = "jdbc_source"
OPEN: list[JdbcReader] = []


@pytest.fixture(scope="module")
def database(postgres: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    with postgres.database(DATABASE) as connection:
        yield connection


@pytest.fixture(autouse=True)
def closing() -> Iterator[None]:
    """Closes the readers of a test at its end."""
    yield
    while OPEN:
        OPEN.pop().close()


def config(url: str, **more: str) -> dict[str, str]:
    settings = {"connection.url": url, "topic.prefix": "db-", "mode": "incrementing", "poll.interval.ms": "0"}
    return settings | {name.replace("_", "."): text for name, text in more.items()}


def reader(settings: dict[str, str]) -> JdbcReader:
    connector = JdbcSourceConnector()
    (task,) = connector.plan(settings, 1)
    jdbc_reader = connector.reader(Task(connector="c", number=0, config=task))
    assert isinstance(jdbc_reader, JdbcReader)
    OPEN.append(jdbc_reader)
    return jdbc_reader


def portions(jdbc_reader: JdbcReader, limit: int = 1000) -> Iterator[list[dict[str, Any]]]:
    """Batch by batch, each read twice, until there is nothing new; with one table."""
    (partition,) = jdbc_reader.partitions()
    offset: SourceOffset | None = None
    while (end := jdbc_reader.latest(partition, offset, ReadLimit(records=limit))) != offset:
        assert end is not None
        rows = read(jdbc_reader, partition, offset, end)
        assert read(jdbc_reader, partition, offset, end) == rows
        yield rows
        offset = json.loads(json.dumps(end))


def read(jdbc_reader: JdbcReader, *where: Any) -> list[dict[str, Any]]:
    batches: list[pyarrow.RecordBatch] = list(jdbc_reader.read(*where))
    return [row["value"] for batch in batches for row in batch.to_pylist()]


def test_rows_by_number_with_the_types_of_postgresql(
    database: psycopg.Connection[Any], postgres: PostgresServer
) -> None:
    database.execute("""
        CREATE TABLE types (id serial PRIMARY KEY, small smallint, big bigint, amount numeric(12, 3), free numeric,
            r real, d double precision, at date, clock time, moment timestamp, zoned timestamptz, data bytea,
            yes boolean, name text NOT NULL, short varchar(9), who uuid, doc jsonb, tags int[])""")
    database.execute("""
        INSERT INTO types VALUES (1, 2, 3, 4.5, 0.1234567890123456789012345678901234567890, 1.5, 2.5, '2024-02-29',
            '12:34:56.789', '2024-02-29 01:02:03.456789', '2024-02-29 01:02:03+02', '\\x00ff', true, 'ä', 'v',
            '12345678-1234-1234-1234-123456789abc', '{"a": [1]}', '{1,2}')""")
    database.execute("INSERT INTO types (id, name) VALUES (2, 'nothing')")
    jdbc_reader = reader(config(postgres.url(DATABASE), table_whitelist="types"))
    first, second = next(portions(jdbc_reader))
    assert first == {
        "id": 1, "small": 2, "big": 3, "amount": Decimal("4.500"),
        "free": "0.1234567890123456789012345678901234567890", "r": 1.5, "d": 2.5, "at": datetime.date(2024, 2, 29),
        "clock": 45_296_789, "moment": datetime.datetime(2024, 2, 29, 1, 2, 3, 456789, tzinfo=datetime.UTC),
        "zoned": datetime.datetime(2024, 2, 28, 23, 2, 3, tzinfo=datetime.UTC), "data": b"\x00\xff", "yes": True,
        "name": "ä", "short": "v", "who": "12345678-1234-1234-1234-123456789abc", "doc": '{"a": [1]}', "tags": "{1,2}",
    }  # fmt: skip
    assert second == dict.fromkeys(first) | {"id": 2, "name": "nothing"}
    value = jdbc_reader.schema({"table": "public.types"})["value"]
    described = json.loads(value.metadata["connect.schema"])
    kinds = {field["field"]: (field["type"], field.get("name", "").rpartition(".")[2]) for field in described["fields"]}
    assert kinds["amount"] == ("bytes", "Decimal")
    assert kinds["clock"] == ("int32", "Time")
    assert kinds["moment"] == kinds["zoned"] == ("int64", "Timestamp")
    assert [field["field"] for field in described["fields"] if not field["optional"]] == ["id", "name"]


def test_portions_in_every_mode(database: psycopg.Connection[Any], postgres: PostgresServer) -> None:
    database.execute("CREATE TABLE things (id bigint PRIMARY KEY, changed timestamp, name text)")
    database.execute(
        "INSERT INTO things SELECT n, timestamp '2024-01-01' + n / 3 * interval '1 second 1 microsecond', 'n' || n "
        "FROM generate_series(1, 10) n"
    )
    url = postgres.url(DATABASE)

    def ids(limit: int, **more: str) -> list[list[int]]:
        jdbc_reader = reader(config(url, **({"table_whitelist": "public.things"} | more)))
        return [[row["id"] for row in rows] for rows in portions(jdbc_reader, limit)]

    assert ids(4) == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]
    # Rows of one moment stay together.
    assert ids(4, mode="timestamp", timestamp_column_name="changed") == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
    timestamp_and_number = {
        "mode": "timestamp+incrementing",
        "timestamp_column_name": "changed",
        "incrementing_column_name": "id",
    }
    assert ids(4, **timestamp_and_number) == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10]]
    query = {"query": "SELECT * FROM things WHERE name LIKE 'n1%'", "table_whitelist": ""}
    assert ids(4, incrementing_column_name="id", **query) == [[1, 10]]
    bulk = reader(config(url, mode="bulk", table_whitelist="things"))
    assert [len(rows) for rows, _ in zip(portions(bulk), range(2), strict=False)] == [10, 10]


def test_updated_rows_come_again_and_late_ones_are_waited_for(
    database: psycopg.Connection[Any], postgres: PostgresServer
) -> None:
    database.execute("CREATE TABLE changing (id int PRIMARY KEY, changed timestamptz DEFAULT now(), name text)")
    database.execute("INSERT INTO changing VALUES (1, now() - interval '3 hours', 'a')")
    database.execute("INSERT INTO changing VALUES (2, now() - interval '5 seconds', 'too young')")
    settings = config(
        postgres.url(DATABASE), table_whitelist="changing", mode="timestamp+incrementing",
        timestamp_column_name="changed", timestamp_delay_interval_ms="3600000",
    )  # fmt: skip
    jdbc_reader = reader(settings)
    (partition,) = jdbc_reader.partitions()
    end = jdbc_reader.latest(partition, None, ReadLimit())
    assert end is not None
    assert [row["id"] for row in read(jdbc_reader, partition, None, end)] == [1]
    database.execute("UPDATE changing SET changed = now() - interval '2 hours', name = 'b'")
    later = jdbc_reader.latest(partition, end, ReadLimit())
    assert later is not None
    assert [(row["id"], row["name"]) for row in read(jdbc_reader, partition, end, later)] == [(1, "b"), (2, "b")]


def test_tables_are_chosen_divided_and_noticed(database: psycopg.Connection[Any], postgres: PostgresServer) -> None:
    database.execute("CREATE SCHEMA shop")
    for name in ("a", "b", "c"):
        database.execute(f"CREATE TABLE shop.{name} (id int PRIMARY KEY)")
    database.execute("CREATE VIEW shop.seen AS SELECT * FROM shop.a")
    connector = JdbcSourceConnector()

    def tables(tasks: int, **more: str) -> list[list[str]]:
        plans = connector.plan(config(postgres.url(DATABASE), schema_pattern="shop", **more), tasks)
        return [json.loads(plan["task.tables"]) for plan in plans]

    assert tables(2) == [["shop.a", "shop.c"], ["shop.b"]]
    assert tables(9) == [["shop.a"], ["shop.b"], ["shop.c"]]
    assert tables(1, table_blacklist="b,shop.c") == [["shop.a"]]
    assert tables(1, table_include_list=r"shop\.[bc]") == [["shop.b", "shop.c"]]
    assert tables(1, table_exclude_list=r".*\.[bc]", table_types="VIEW,TABLE") == [["shop.a", "shop.seen"]]
    settings = config(postgres.url(DATABASE), schema_pattern="shop")
    connector.plan(settings, 1)
    assert not connector.changed(settings)
    database.execute("CREATE TABLE shop.new (id int)")
    assert connector.changed(settings)


def test_what_cannot_work_is_said(database: psycopg.Connection[Any], postgres: PostgresServer) -> None:
    database.execute("CREATE TABLE plain (name text)")
    jdbc_reader = reader(config(postgres.url(DATABASE), table_whitelist="plain"))
    with pytest.raises(ConnectError, match=r"incrementing\.column\.name"):
        jdbc_reader.latest({"table": "public.plain"}, None, ReadLimit())
    with pytest.raises(ConfigError, match="jdbc:oracle"):
        reader(config("jdbc:oracle:thin:@x"))
    with pytest.raises(RetriableError):
        reader(config("jdbc:postgresql://127.0.0.1:1/x"))


def test_sqlite_in_portions(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, price DECIMAL(8,2), at DATE, seen TIMESTAMP, yes BOOLEAN, x REAL)"
        )
        connection.executemany(
            "INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)",
            [(number, number / 4, "2024-01-02", "2024-01-02 03:04:05.5", 1, 0.5) for number in range(5)],
        )
    connection.close()
    rows = list(portions(reader(config(f"jdbc:sqlite:{path}")), 3))
    assert [[row["id"] for row in portion] for portion in rows] == [[0, 1, 2], [3, 4]]
    assert rows[1][0] == {
        "id": 3, "price": Decimal("0.75"), "at": datetime.date(2024, 1, 2), "yes": True, "x": 0.5,
        "seen": datetime.datetime(2024, 1, 2, 3, 4, 5, 500_000, tzinfo=datetime.UTC),
    }  # fmt: skip
    by_time = config(f"jdbc:sqlite:{path}", mode="timestamp", timestamp_column_name="seen")
    assert [len(portion) for portion in portions(reader(by_time), 2)] == [5]


def test_a_query_may_have_percent_signs_in_every_mode(
    database: psycopg.Connection[Any], postgres: PostgresServer
) -> None:
    database.execute("CREATE TABLE halves (id numeric(9) PRIMARY KEY)")
    database.execute("INSERT INTO halves SELECT generate_series(1, 5)")
    query = {"query": "SELECT * FROM halves WHERE id % 2 = 1", "incrementing_column_name": "id"}
    by_number = reader(config(postgres.url(DATABASE), **query))
    wanted = [[Decimal(1), Decimal(3)], [Decimal(5)]]
    assert [[row["id"] for row in rows] for rows in portions(by_number, 2)] == wanted
    bulk = next(portions(reader(config(postgres.url(DATABASE), **query, mode="bulk"))))
    assert sorted(row["id"] for row in bulk) == [1, 3, 5]


def test_timestamps_without_a_zone_are_in_that_of_the_setting(
    database: psycopg.Connection[Any], postgres: PostgresServer
) -> None:
    database.execute("CREATE TABLE zones (id int PRIMARY KEY, bare timestamp, zoned timestamptz)")
    database.execute("INSERT INTO zones VALUES (1, '2024-07-01 12:00', '2024-07-01 12:00+00')")
    settings = config(postgres.url(DATABASE), table_whitelist="zones", db_timezone="Europe/Berlin")
    ((row,),) = portions(reader(settings))
    assert row["bare"] == datetime.datetime(2024, 7, 1, 10, tzinfo=datetime.UTC)
    assert row["zoned"] == datetime.datetime(2024, 7, 1, 12, tzinfo=datetime.UTC)


def test_times_without_end_do_not_end_a_task(database: psycopg.Connection[Any], postgres: PostgresServer) -> None:
    database.execute("CREATE TABLE endless (id int PRIMARY KEY, at date, bare timestamp, zoned timestamptz)")
    database.execute("INSERT INTO endless VALUES (1, 'infinity', '-infinity', 'infinity'), (2, null, null, null)")
    database.execute("INSERT INTO endless VALUES (3, '0044-03-15 BC', '12000-01-01', '2024-01-01 00:00+00')")
    for zone in ("UTC", "America/New_York"):
        settings = config(postgres.url(DATABASE), table_whitelist="endless", db_timezone=zone)
        ((first, second, third),) = portions(reader(settings))
        assert first["at"] == datetime.date(9999, 12, 31)
        assert (first["bare"].year, first["zoned"].year) == (1, 9999)
        assert second == {"id": 2, "at": None, "bare": None, "zoned": None}
        assert (third["at"], third["bare"].year, third["zoned"].year) == (datetime.date(1, 1, 1), 9999, 2024)
