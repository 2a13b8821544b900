"""An Iceberg REST catalog in a separate process, over a catalog in SQLite: `python -m tests.support.iceberg_rest`.

It has only the operations that a table needs: configuration, namespaces, and creating, loading and committing tables.
`/break` makes the server end without an answer after the next commit.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

__all__ = ["RestCatalogProcess", "rest_catalog"]


class _Handler(BaseHTTPRequestHandler):
    catalog: Any
    breaks = False

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        if self.path.startswith("/v1/config"):
            self._answer(200, {"defaults": {}, "overrides": {}})
        else:
            self._load()

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        from pyiceberg.exceptions import CommitFailedException, TableAlreadyExistsError

        if self.path == "/break":
            _Handler.breaks = True
            self._answer(200, {})
            return
        body = self.rfile.read(int(self.headers["Content-Length"]))
        try:
            if self.path == "/v1/namespaces":
                self.catalog.create_namespace_if_not_exists(tuple(json.loads(body)["namespace"]))
                self._answer(200, {"namespace": json.loads(body)["namespace"], "properties": {}})
            elif self.path.endswith("/tables"):
                self._create(body)
            else:
                self._commit(body)
        except CommitFailedException as error:
            self._refuse(409, "CommitFailedException", error)
        except TableAlreadyExistsError as error:
            self._refuse(409, "AlreadyExistsException", error)

    def _identifier(self) -> tuple[str, ...] | None:
        match = re.fullmatch(r"/v1/namespaces/([^/]+)/tables/([^/?]+).*", self.path)
        return None if match is None else (unquote(match[1]), unquote(match[2]))

    def _load(self) -> None:
        from pyiceberg.exceptions import NoSuchTableError

        identifier = self._identifier()
        if identifier is None:
            self._answer(200, {"namespace": [self.path.rpartition("/")[2]], "properties": {}})
            return
        try:
            self._table(self.catalog.load_table(identifier))
        except NoSuchTableError as error:
            self._refuse(404, "NoSuchTableException", error)

    def _create(self, body: bytes) -> None:
        from pyiceberg.catalog.rest import CreateTableRequest

        wanted = CreateTableRequest.model_validate({"location": None, **json.loads(body)})
        namespace = unquote(self.path.split("/")[3])
        self._table(
            self.catalog.create_table(
                (namespace, wanted.name),
                wanted.table_schema,
                partition_spec=wanted.partition_spec,
                properties=wanted.properties,
            )
        )

    def _commit(self, body: bytes) -> None:
        from pyiceberg.table import CommitTableRequest

        wanted = CommitTableRequest.model_validate_json(body)
        table = self.catalog.load_table(self._identifier())
        self.catalog.commit_table(table, wanted.requirements, wanted.updates)
        if _Handler.breaks:
            os._exit(1)
        self._table(self.catalog.load_table(self._identifier()))

    def _table(self, table: Any) -> None:
        metadata = json.loads(table.metadata.model_dump_json())
        self._answer(200, {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}})

    def _refuse(self, status: int, kind: str, error: Exception) -> None:
        self._answer(status, {"error": {"message": str(error), "type": kind, "code": status}})

    def _answer(self, status: int, content: Any) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def serve(port: int, directory: str) -> None:
    from pyiceberg.catalog import load_catalog

    properties = {"type": "sql", "uri": f"sqlite:///{directory}/rest.db", "warehouse": directory}
    _Handler.catalog = load_catalog("rest", **properties)
    server = ThreadingHTTPServer(("127.0.0.1", port), _Handler)
    print("ready", flush=True)
    server.serve_forever()


class RestCatalogProcess:
    """A catalog that can be killed and started again on the same port."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self._port}"
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "tests.support.iceberg_rest", str(self._port), str(self._directory)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self.wait()

    def wait(self) -> None:
        assert self._process is not None
        self._process.wait(60)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def break_after_next_commit(self) -> None:
        import urllib.request

        with urllib.request.urlopen(urllib.request.Request(f"{self.url}/break", method="POST"), timeout=60):
            pass


@contextmanager
def rest_catalog(directory: Path) -> Iterator[RestCatalogProcess]:
    running = RestCatalogProcess(directory)
    running.start()
    try:
        yield running
    finally:
        running.kill()


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2])
