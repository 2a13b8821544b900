"""Change data capture from a server that is killed again and again: every change comes once, readers go on.

FAULTS_SECONDS is the duration (60), FAULTS_SEED the random seed.
"""

from __future__ import annotations

import os
import random
import threading
import time
from typing import Any

import psycopg
import pytest

from ottla.connect.api import RetriableError
from tests.connect.test_postgres_changes import Capture
from tests.support.postgres import PostgresServer, postgres_server

pytestmark = [pytest.mark.faults, pytest.mark.spark]

SECONDS = float(os.environ.get("FAULTS_SECONDS", "60"))
SEED = int(os.environ.get("FAULTS_SEED", "1"))


class Writer(threading.Thread):
    """Changes rows and records every change, until it is stopped."""

    def __init__(self, server: PostgresServer) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._chance = random.Random(SEED)
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.is_set():
            try:
                with self._server.connect() as connection:
                    while not self.stopping.is_set():
                        self._change(connection)
            except psycopg.OperationalError:
                self.stopping.wait(0.1)

    def _change(self, connection: psycopg.Connection[Any]) -> None:
        key = self._chance.randrange(50)
        with connection.transaction():
            if self._chance.random() < 0.3:
                connection.execute("DELETE FROM t WHERE id = %s", (key,))
            else:
                connection.execute(
                    "INSERT INTO t VALUES (%s, %s) ON CONFLICT (id) DO UPDATE SET name = excluded.name",
                    (key, str(self._chance.random())),
                )
            connection.execute("INSERT INTO noted (key) VALUES (%s)", (key,))
        self.stopping.wait(0.005)


@pytest.mark.timeout(0)
def test_every_change_comes_once_from_a_server_that_is_killed() -> None:
    chance = random.Random(SEED)
    copy: dict[int, Any] = {}
    noted: list[int] = []
    kills = 0

    def take(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            if row["topic"] == "p.public.noted":
                noted.append(row["key"]["id"])
            elif row["value"] is None or row["value"]["after"] is None:
                copy.pop(row["key"]["id"], None)
            else:
                copy[row["key"]["id"]] = row["value"]["after"]["name"]

    with postgres_server() as server:
        with server.connect() as connection:
            connection.execute("CREATE TABLE t (id int PRIMARY KEY, name text)")
            connection.execute("CREATE TABLE noted (id bigserial PRIMARY KEY, key int)")
        capture = Capture(server, "postgres")
        take(capture.round())
        take(capture.round())
        writer = Writer(server)
        writer.start()
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            for _ in range(chance.randrange(1, 6)):
                take(_patiently(capture))
            killer = threading.Timer(chance.uniform(0.0, 0.5), server.kill)
            killer.start()
            while killer.is_alive():
                take(_patiently(capture))
            server.start()
            kills += 1
            if chance.random() < 0.5:
                capture.restart()
        writer.stopping.set()
        writer.join()
        for _ in range(30):
            take(_patiently(capture))
        with server.connect() as connection:
            wanted = dict(connection.execute("SELECT * FROM t").fetchall())
            numbers = [number for (number,) in connection.execute("SELECT id FROM noted ORDER BY 1").fetchall()]
        capture.reader.close()
    print(f"{kills} kills, {len(numbers)} transactions", flush=True)
    assert copy == wanted
    assert sorted(noted) == numbers


def _patiently(capture: Capture) -> list[dict[str, Any]]:
    """A batch, or no rows while the server is unavailable: rows count only if the whole batch succeeds."""
    try:
        return capture.round()
    except RetriableError:
        return []
