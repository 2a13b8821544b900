"""A separate PostgreSQL server: a data directory, a free port, and kill -9 for tests of crashes.

The programs come from the operating system's package (`apt-get install postgresql`). The server refuses to run as
root, so root runs it as the package's user. Nothing is flushed to the disk, so that tests are quick; data that a
killed process had written is in the operating system's memory and survives.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ottla.host.free_ports import free_ports

__all__ = ["PostgresServer", "postgres_server"]

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
SETTINGS = {
    "fsync": "off",
    "full_page_writes": "off",
    "wal_level": "logical",
    "max_replication_slots": "20",
    "max_wal_senders": "4",
    "shared_buffers": "32MB",
    "max_connections": "60",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "autovacuum": "off",
}
START_SECONDS = 180


class PostgresServer:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._data = directory / "data"
        self._log = directory / "server.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._user = "postgres" if os.getuid() == 0 else pwd.getpwuid(os.getuid()).pw_name
        (self.port,) = free_ports(1)

    def create(self) -> None:
        if os.getuid() == 0:
            shutil.chown(self._directory, self._user)
        self._run([str(PROGRAMS[-1] / "initdb"), "-D", str(self._data), "-U", "ottla", "-A", "trust", "--no-sync"])

    def start(self) -> None:
        options = [part for name, value in SETTINGS.items() for part in ("-c", f"{name}={value}")]
        command = [str(PROGRAMS[-1] / "postgres"), "-D", str(self._data), "-p", str(self.port), *options]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._as_user(command), stdout=log, stderr=log, start_new_session=True)
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                self.connect().close()
                return
            except psycopg.OperationalError:
                assert self._process.poll() is None, self._log.read_text()[-3000:]
                assert time.monotonic() < end, self._log.read_text()[-3000:]
                time.sleep(0.1)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(30)
            self._process = None

    def kill(self) -> None:
        """Kills the server and all its processes at once."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def connect(self, database: str = "postgres") -> psycopg.Connection[Any]:
        return psycopg.connect(
            host="127.0.0.1", port=self.port, user="ottla", dbname=database, autocommit=True, connect_timeout=60
        )

    def url(self, database: str) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.port}/{database}?user=ottla"

    def database(self, name: str) -> psycopg.Connection[Any]:
        """Creates a database and returns a connection to it."""
        with self.connect() as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return self.connect(name)

    def _as_user(self, command: list[str]) -> list[str]:
        # If the test process is killed, the server ends, too.
        together = ["setpriv", "--pdeathsig", "QUIT"]
        if os.getuid() != 0:
            return [*together, *command]
        account = pwd.getpwnam(self._user)
        return [*together, f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--clear-groups", *command]

    def _run(self, command: list[str]) -> None:
        completed = subprocess.run(self._as_user(command), capture_output=True, text=True, cwd="/", check=False)
        assert completed.returncode == 0, completed.stderr


@contextlib.contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    if not PROGRAMS:
        pytest.skip("there is no PostgreSQL server on this machine: apt-get install postgresql")
    with tempfile.TemporaryDirectory(prefix="ottla-postgres-") as directory:
        server = PostgresServer(Path(directory))
        server.create()
        server.start()
        try:
            yield server
        finally:
            server.stop()
