"""Exactly once from database to database, while worker, Spark, broker, source and target are killed.

Rows are inserted, changed and deleted all the time in one PostgreSQL; another one gets the changes through topics. One
table is copied by key, so that it ends equal; another one is only inserted into, without a key, so that repeated and
missing changes show; its rows are read by a query as well, into a topic. A target that was dead for a while catches up.

FAULTS_SECONDS is the duration (60), FAULTS_SEED the random seed.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ottla.testing import cluster
from tests.connect.test_connectors_killed import Process
from tests.support.brokers import free_ports
from tests.support.connect_live import worker_properties
from tests.support.postgres import PostgresServer, postgres_server
from tests.support.spark_java import SHORT_LIVED
from tests.support.spark_topics import Topics
from tests.support.victims import victims

pytestmark = [pytest.mark.faults, pytest.mark.spark]

SECONDS = float(os.environ.get("FAULTS_SECONDS", "60"))
SEED = int(os.environ.get("FAULTS_SEED", "1"))
END_SECONDS = 600.0
ACCOUNTS = 200
VICTIMS = ("worker", "broker", "source", "target")
JSON = {"key_converter": "JsonConverter", "value_converter": "JsonConverter", "value_converter_schemas_enable": "true"}
FOR_EVER = {"tasks_restart_max_attempts": "-1", "tasks_restart_backoff_ms": "1000"}


class Writer(threading.Thread):
    """Changes accounts, and records every change in a history, until it is stopped."""

    def __init__(self, server: PostgresServer) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._chance = random.Random(SEED)
        self._stopping = threading.Event()
        self.transactions = 0

    def stop(self) -> None:
        self._stopping.set()
        self.join()

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                with self._server.connect() as connection:
                    while not self._stopping.is_set():
                        self._change(connection)
                        self._stopping.wait(0.02)
            except psycopg.OperationalError:
                self._stopping.wait(0.2)

    def _change(self, connection: psycopg.Connection[Any]) -> None:
        with connection.transaction():
            for _ in range(self._chance.randrange(1, 6)):
                account, draw = self._chance.randrange(ACCOUNTS), self._chance.random()
                if draw < 0.2:
                    connection.execute("DELETE FROM accounts WHERE id = %s", (account,))
                else:
                    connection.execute(
                        "INSERT INTO accounts VALUES (%s, %s, now()) ON CONFLICT (id) "
                        "DO UPDATE SET balance = excluded.balance, changed = excluded.changed",
                        (account, self._chance.randrange(10**6) / 100),
                    )
                connection.execute("INSERT INTO history (account) VALUES (%s)", (account,))
        self.transactions += 1


@pytest.mark.timeout(0)
def test_the_target_equals_the_source_despite_kills(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    with cluster() as brokers, postgres_server() as source, postgres_server() as target:
        topics = Topics(brokers.bootstrap)
        for table in ("accounts", "history"):
            topics.create(f"bank.public.{table}", partitions=2)
        topics.create("polled-history")
        with source.connect() as connection:
            connection.execute(
                "CREATE TABLE accounts (id int PRIMARY KEY, balance numeric(12, 2), changed timestamp(3))"
            )
            connection.execute("CREATE TABLE history (id bigserial PRIMARY KEY, account int)")
            connection.execute(f"INSERT INTO accounts SELECT n, 0, now() FROM generate_series(0, {ACCOUNTS - 1}) n")
        properties = worker_properties(brokers.bootstrap, "bank", listeners=f"http://127.0.0.1:{free_ports(1)[0]}")
        properties |= {"batch.max.records": "5000", "spark.master": "local[2,4]", **SHORT_LIVED}
        worker = Process(tmp_path, properties)
        writer, log = Writer(source), tmp_path / "worker.log"
        worker.start()
        try:
            _start_connectors(worker, source, target)
            _until(lambda: len(_rows(target, "accounts")) >= ACCOUNTS, log, "the snapshot does not arrive")
            writer.start()
            last = began = time.monotonic()
            for victim in victims(chance, VICTIMS, seconds=SECONDS):
                before = _count(target, "history")
                _until(lambda before=before: _count(target, "history") > before, log, "nothing moves")  # type: ignore[misc]
                waited = time.monotonic() - last
                time.sleep(chance.uniform(0.0, 3.0))
                print(
                    f"{time.monotonic() - began:.0f} s: {victim} is killed after {writer.transactions} transactions; "
                    f"{_count(target, 'history')} arrived, {waited:.1f} s after the last victim was started again",
                    flush=True,
                )
                last = _kill(victim, worker, brokers, source, target, chance)
            writer.stop()
            _until(
                lambda: (
                    _rows(target, "history") == _rows(source, "history")
                    and _rows(target, "accounts") == _rows(source, "accounts")
                    and len(_polled(topics)) >= len(_rows(source, "history"))
                ),
                log,
                "the target does not become equal",
            )
            history = [number for number, _ in _rows(target, "history")]
            assert len(history) == len(set(history)) > 0
            assert sorted(_polled(topics)) == history
            print(f"{writer.transactions} transactions, {len(history)} rows of history in table and topic")
        finally:
            worker.kill()
            topics.close()


def _start_connectors(worker: Process, source: PostgresServer, target: PostgresServer) -> None:
    worker.put(
        "capture", connector_class="PostgresSource", topic_prefix="bank", database_hostname="127.0.0.1",
        database_port=str(source.port), database_user="ottla", database_dbname="postgres", **JSON, **FOR_EVER,
    )  # fmt: skip
    common = {
        "connector_class": "JdbcSink", "connection_url": target.url("postgres"), "auto_create": "true",
        "transforms": "after", "transforms_after_type": "ExtractField$Value", "transforms_after_field": "after",
    }  # fmt: skip
    worker.put(
        "accounts", topics="bank.public.accounts", table_name_format="accounts", insert_mode="upsert",
        pk_mode="record_key", delete_enabled="true", tasks_max="2", **common, **JSON, **FOR_EVER,
    )  # fmt: skip
    worker.put(
        "polled", connector_class="JdbcSource", connection_url=source.url("postgres"), mode="incrementing",
        table_whitelist="history", topic_prefix="polled-", poll_interval_ms="200", **JSON, **FOR_EVER,
    )  # fmt: skip
    worker.put(
        "history", topics="bank.public.history", table_name_format="history", insert_mode="insert", **common, **JSON,
        **FOR_EVER,
    )  # fmt: skip


def _polled(topics: Topics) -> list[int]:
    return [json.loads(record.value or b"")["payload"]["id"] for record in topics.read("polled-history")]


def _kill(
    victim: str, worker: Process, brokers: Any, source: PostgresServer, target: PostgresServer, chance: random.Random
) -> float:
    """Kills the victim and starts it again; returns the time of the start."""
    (node,) = brokers.nodes
    killed: Any = {"worker": worker, "broker": node, "source": source, "target": target}[victim]
    killed.kill()
    if victim in ("source", "target"):
        time.sleep(chance.uniform(0.0, 8.0))
    started = time.monotonic()
    killed.start()
    return started


def _rows(server: PostgresServer, table: str) -> list[Any]:
    with server.connect() as connection:
        if connection.execute("SELECT to_regclass(%s)", (table,)).fetchone() == (None,):
            return []
        return connection.execute(f"SELECT * FROM {table} ORDER BY 1, 2").fetchall()


def _count(server: PostgresServer, table: str) -> int:
    with server.connect() as connection:
        if connection.execute("SELECT to_regclass(%s)", (table,)).fetchone() == (None,):
            return 0
        (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone() or (0,)
        return int(count)


def _until(holds: Any, log: Path, failure: str) -> None:
    end = time.monotonic() + END_SECONDS
    while not holds():
        assert time.monotonic() < end, f"{failure}: {log.read_text()[-5000:]}"
        time.sleep(0.5)
