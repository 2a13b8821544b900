"""From one table to another through topics, with a worker, a broker, Spark and PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from ottla.testing import cluster
from tests.support.connect_live import LiveWorker, worker_properties
from tests.support.postgres import PostgresServer
from tests.support.spark_topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

DATABASE = "live"
JSON = {"key_converter": "JsonConverter", "value_converter": "JsonConverter", "value_converter_schemas_enable": "true"}


@pytest.fixture(scope="module")
def topics() -> Iterator[Topics]:
    with cluster() as running:
        client = Topics(running.bootstrap)
        yield client
        client.close()


@pytest.fixture(scope="module")
def worker(topics: Topics, spark: SparkSession) -> Iterator[LiveWorker]:
    with LiveWorker(worker_properties(topics.bootstrap, "databases"), spark) as running:
        yield running


@pytest.fixture(scope="module")
def database(postgres: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    with postgres.database(DATABASE) as connection:
        yield connection


def rows(database: psycopg.Connection[Any], table: str) -> list[Any]:
    exists = database.execute("SELECT to_regclass(%s)", (table,)).fetchone() != (None,)
    return database.execute(f"SELECT * FROM {table} ORDER BY 1", prepare=False).fetchall() if exists else []


def test_changes_of_a_table_make_another_table_equal(
    worker: LiveWorker, topics: Topics, database: psycopg.Connection[Any], postgres: PostgresServer
) -> None:
    database.execute(
        "CREATE TABLE orders (id bigint PRIMARY KEY, item text, price numeric(9, 2), at timestamp, clock time, "
        "paid boolean, data bytea, due date)"
    )
    database.execute(
        "INSERT INTO orders SELECT n, 'item ' || n, n / 4.0, '2024-01-01 10:00:00.123', '10:00:00.5', n % 2 = 0, "
        "'\\x00ff', date '2024-01-01' + n FROM generate_series(1, 50) n"
    )
    topic = topics.create("shop.public.orders", partitions=2)
    worker.put(
        "capture", connector_class="io.debezium.connector.postgresql.PostgresConnector", topic_prefix="shop",
        database_hostname="127.0.0.1", database_port=str(postgres.port), database_user="ottla",
        database_dbname=DATABASE, table_include_list=r"public\.orders", slot_name="live", **JSON,
    )  # fmt: skip
    worker.put(
        "apply", connector_class="io.confluent.connect.jdbc.JdbcSinkConnector", topics=topic, tasks_max="2",
        connection_url=postgres.url(DATABASE), insert_mode="upsert", pk_mode="record_key", delete_enabled="true",
        table_name_format="copied_orders", auto_create="true", auto_evolve="true",
        transforms="after", transforms_after_type="ExtractField$Value", transforms_after_field="after", **JSON,
    )  # fmt: skip
    names = ("capture", "apply")
    worker.wait(lambda: len(rows(database, "copied_orders")) == 50, *names)
    assert rows(database, "copied_orders") == rows(database, "orders")
    database.execute("UPDATE orders SET item = 'other', price = NULL WHERE id % 5 = 0")
    database.execute("DELETE FROM orders WHERE id % 7 = 0")
    database.execute("ALTER TABLE orders ADD note text")
    database.execute("INSERT INTO orders (id, note) VALUES (100, 'new')")
    database.execute("UPDATE orders SET id = 101 WHERE id = 1")
    worker.wait(lambda: rows(database, "copied_orders") == rows(database, "orders"), *names)
    for name in names:
        worker.request("DELETE", f"/connectors/{name}")


def test_rows_of_tables_that_come_are_copied_once(
    worker: LiveWorker, topics: Topics, database: psycopg.Connection[Any], postgres: PostgresServer
) -> None:
    database.execute("CREATE SCHEMA inbox")
    database.execute("CREATE TABLE inbox.first (id bigserial PRIMARY KEY, name text)")
    database.execute("INSERT INTO inbox.first (name) SELECT 'n' || n FROM generate_series(1, 100) n")
    for name in ("first", "second"):
        topics.create(f"in-{name}")
    worker.put(
        "tables", connector_class="io.confluent.connect.jdbc.JdbcSourceConnector", mode="incrementing", tasks_max="2",
        connection_url=postgres.url(DATABASE), schema_pattern="inbox", topic_prefix="in-", poll_interval_ms="200",
        **JSON,
    )  # fmt: skip
    worker.put(
        "copies", connector_class="JdbcSink", topics="in-first,in-second", connection_url=postgres.url(DATABASE),
        table_name_format="outbox_${topic}", auto_create="true", auto_evolve="true", **JSON,
    )  # fmt: skip
    names = ("tables", "copies")
    worker.wait(lambda: len(rows(database, '"outbox_in-first"')) == 100, *names)
    database.execute("CREATE TABLE inbox.second (id bigint PRIMARY KEY, at date)")
    database.execute("INSERT INTO inbox.second VALUES (7, '2024-02-29')")
    worker.wait(lambda: rows(database, '"outbox_in-second"') == rows(database, "inbox.second"), *names)
    assert rows(database, '"outbox_in-first"') == rows(database, "inbox.first")
    assert len(worker.status("tables")["tasks"]) == 2
    for name in names:
        worker.request("DELETE", f"/connectors/{name}")
