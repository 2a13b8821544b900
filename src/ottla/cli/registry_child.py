"""The Schema Registry beside the nodes of `ottla up`: a child process, because a node imports nothing slow."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress

__all__ = ["RegistryChild", "missing_libraries"]

_NEEDED = ("aiohttp", "fastavro", "google.protobuf", "proto_schema_parser", "jsonschema_rs")
# The cluster is gone by then, so that the registry cannot leave its group; its topic needs no orderly end.
_STOP_SECONDS_MAX = 2.0


def missing_libraries() -> list[str]:
    """What the registry needs and is not installed: it is an extra of the package."""
    from importlib.util import find_spec

    missing = []
    for name in _NEEDED:
        try:
            found = find_spec(name)
        except ModuleNotFoundError:
            found = None
        if found is None:
            missing.append(name)
    return missing


class RegistryChild:
    """Runs from `start` to `stop`. If this process is killed, the child sees the end of its standard input."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, bootstrap: str, *, command_config: str | None = None) -> None:
        """The child prints `registry` and its address when it is ready."""
        command = [sys.executable, "-m", "ottla.cli.main", "registry", "--bootstrap-server", bootstrap]
        command += ["--port", str(self._port), "--ready-word", "registry"]
        command += ["--command-config", command_config] if command_config is not None else []
        environment = {**os.environ, "OTTLA_LIFELINE": "stdin"}
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)

    @property
    def url(self) -> str | None:
        """Its address; None if the operating system chose the port."""
        return f"http://127.0.0.1:{self._port}" if self._port else None

    def stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        with suppress(OSError):
            process.stdin.close()
        process.terminate()
        try:
            process.wait(_STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
