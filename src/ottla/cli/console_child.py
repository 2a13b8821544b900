"""The console beside the nodes of `ottla up`: a child process, because the loop of a node must not wait for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress

__all__ = ["ConsoleChild", "missing_libraries"]

_NEEDED = ("aiohttp",)
_STOP_SECONDS_MAX = 2.0


def missing_libraries() -> list[str]:
    """What the console needs and is not installed: it is an extra of the package."""
    from importlib.util import find_spec

    return [name for name in _NEEDED if find_spec(name) is None]


class ConsoleChild:
    """Runs from `start` to `stop`. If this process is killed, the child sees the end of its standard input."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None

    def start(
        self,
        bootstrap: str,
        *,
        command_config: str | None = None,
        registry_url: str | None = None,
        metrics_urls: Sequence[str] = (),
    ) -> None:
        """The child prints `console` and its address when it is ready."""
        command = [sys.executable, "-m", "ottla.cli.main", "console", "--bootstrap-server", bootstrap]
        command += ["--port", str(self._port), "--ready-word", "console"]
        command += ["--command-config", command_config] if command_config is not None else []
        command += ["--registry", registry_url] if registry_url is not None else []
        for url in metrics_urls:
            command += ["--metrics", url]
        environment = {**os.environ, "OTTLA_LIFELINE": "stdin"}
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, env=environment)

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
