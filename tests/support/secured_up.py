"""`ottla up --secure` as a child process."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

__all__ = ["SecuredUp"]

STOP_SECONDS_MAX = 90.0


class SecuredUp:
    """A context manager: the cluster is ready on entry, and is stopped in order on exit."""

    def __init__(self, data: Path, *, nodes: int = 1, more: tuple[str, ...] = ()) -> None:
        self.data = data
        self._words = ["up", "--secure", "--nodes", str(nodes), "--port", "0", "--data", str(data), *more]
        self.bootstrap = ""
        self.said = ""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "ottla.cli.main", *self._words]
        self.log = self.data.with_suffix(".log").open("ab")
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self.log, text=True)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said += line
            if line.startswith("ready "):
                self.bootstrap = line.split()[1]
            if "Ctrl-C" in line:
                return self
        raise AssertionError(f"it ended: {self.said}{self.data.with_suffix('.log').read_text()}")

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        assert self._process.stdout is not None
        self._process.stdout.close()
        try:
            self._process.wait(STOP_SECONDS_MAX)
        finally:
            self._process.kill()
            self.log.close()

    def file(self, name: str) -> Path:
        return self.data / name

    def librdkafka(self) -> dict[str, str]:
        """The settings of librdkafka, read in the same way as in the printed example."""
        return dict(line.split("=", 1) for line in self.file("librdkafka.properties").read_text().splitlines())
