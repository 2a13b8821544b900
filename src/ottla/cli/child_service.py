"""A service beside the nodes of `ottla up`: a child process of the command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec

__all__ = ["ChildService", "missing_of"]

# The cluster has stopped by then, so an orderly stop of a service has no reason to take longer.
_STOP_SECONDS_MAX = 2.0


class ChildService:
    """Runs from `start` to `stop`. If this process is killed, the child sees the end of its standard input."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, arguments: Sequence[str]) -> None:
        """`arguments` are the arguments of the command `ottla`."""
        command = [sys.executable, "-m", "ottla.cli.main", *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, env={**os.environ, "OTTLA_LIFELINE": "stdin"})

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


def missing_of(modules: Sequence[str]) -> list[str]:
    """The modules that are not installed. The services are extras of the package."""
    return [name for name in modules if not _is_installed(name)]


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        # The package of the module is missing.
        return False
