"""Registries as processes, and their REST interface as functions."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

__all__ = ["RegistryProcess", "registry_process"]


class RegistryProcess:
    # Set for https with a client certificate.
    tls: ssl.SSLContext | None = None

    def __init__(self, bootstrap: str, *options: str) -> None:
        command = [sys.executable, "-m", "ottla.cli.main", "registry", "-b", bootstrap, *options]
        if "--port" not in options:
            command += ["--port", "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.startswith("ready "):
            self.process.kill()
            _, errors = self.process.communicate()
            raise AssertionError(f"The registry did not start: {line}{errors}")
        self.url = line.split()[1]

    @property
    def port(self) -> int:
        port = urlsplit(self.url).port
        assert port is not None
        return port

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def stop(self) -> str:
        """Stops the registry in order and returns its log."""
        self.process.terminate()
        _, errors = self.process.communicate(timeout=60)
        return errors

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Sends a request; returns status and body. Raises OSError if the registry cannot be reached."""
        request = urllib.request.Request(
            self.url + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/vnd.schemaregistry.v1+json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60, context=self.tls) as answer:
                return answer.status, _parsed(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _parsed(error.read())

    def get(self, path: str) -> Any:
        status, body = self.ask("GET", path)
        assert status == 200, body
        return body

    def code(self, method: str, path: str, body: Any = None) -> tuple[int, int]:
        """Sends a request that must fail; returns its status and error code."""
        status, answer = self.ask(method, path, body)
        assert status >= 400, answer
        return status, answer["error_code"]

    def register(self, subject: str, schema: str, **fields: Any) -> int:
        status, body = self.ask("POST", f"/subjects/{subject}/versions", {"schema": schema, **fields})
        assert status == 200, body
        return int(body["id"])


@contextmanager
def registry_process(bootstrap: str, *options: str) -> Iterator[RegistryProcess]:
    registry = RegistryProcess(bootstrap, *options)
    try:
        yield registry
    finally:
        registry.kill()


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data) if data else None
    except ValueError:
        return data.decode()
