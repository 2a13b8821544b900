"""The floor under a broker's CPU time: the same client, beside a server that is no broker.

`floor_server` only does what nobody can leave out: it receives each batch, checks its CRC, writes it and answers, or
sends what was written. In the same run as Apache Kafka and Ottla, with their clients, it tells how much of a ratio can
be won at all by whoever does that work in an event loop of Python, on this machine. `native/floor_server.c` does the
same with what is written, without Python, and tells it of any language. (What a broker pays later for the same bytes,
such as removing old segments, is in neither.)
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.support.brokers import Broker, OttlaFromFile, free_ports

__all__ = ["FLOOR", "NATIVE_FLOOR", "Floor", "NativeFloor", "floors_here"]

# As the rows of a result name them.
FLOOR, NATIVE_FLOOR = "floor", "floor in C"
SOURCE = Path(__file__).parent / "native" / "floor_server.c"


class Floor(Broker):
    """The server, and a node behind it for all that is neither Produce nor Fetch: topics, metadata, producer ids."""

    name = FLOOR

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, settings)
        (port,) = free_ports(1)
        self.bootstrap = f"127.0.0.1:{port}"
        # Clients that ask it for the cluster come back to the server.
        advertised = {"advertised.listeners": f"PLAINTEXT://{self.bootstrap}"}
        self._behind = OttlaFromFile(directory / "behind", {**self.settings, **advertised})

    def start(self) -> Self:
        self._behind.start()
        self.log_directory = self._behind.log_directory
        self._spawn(self._command(port_of(self.bootstrap), port_of(self._behind.bootstrap)))
        self._wait_for("^ready")
        return self

    def topic_removed(self) -> None:
        """Brokers remove files later, when nobody measures them; the server would with its next topic."""
        for path in self.directory.iterdir():
            if path.name.isdecimal():
                os.truncate(path, 0)

    def stop(self, *, timeout_s: float = 30.0) -> None:
        # It has nothing to lose, and no notion of a clean end.
        self.kill()
        self._behind.stop(timeout_s=timeout_s)

    def _command(self, port: str, port_behind: str) -> list[str]:
        ports = ["--port", port, "--behind", port_behind]
        return [sys.executable, "-m", "bench.floor_server", *ports, "--directory", str(self.directory)]


class NativeFloor(Floor):
    """The same in C, for Produce alone: what is left of the work when there is no interpreter."""

    name = NATIVE_FLOOR

    def _command(self, port: str, port_behind: str) -> list[str]:
        program = self.directory / "floor_server"
        subprocess.run(["cc", "-O2", "-o", str(program), str(SOURCE)], check=True)
        return [str(program), port, port_behind, str(self.directory)]


def floors_here() -> list[type[Floor]]:
    """Those that can be had on this machine: the one in C needs a compiler."""
    return [Floor, NativeFloor] if shutil.which("cc") and platform.machine() == "x86_64" else [Floor]


def port_of(address: str) -> str:
    return address.rpartition(":")[2]
