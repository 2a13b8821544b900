"""The lower bound of a broker's CPU time: the same client with a minimal server.

`floor_server` does only the unavoidable work: it receives each batch, checks its CRC, writes it and answers, or sends
stored batches. It runs in the same run as Apache Kafka and Ottla, with the same clients, and so shows the best ratio
that any server in a Python event loop can reach on this machine. `native/floor_server.c` does the same for produce
without Python, and shows the bound for any language. (Later costs of the same bytes, such as removing old segments, are
not included.)
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

# Their names in the rows of a result.
FLOOR, NATIVE_FLOOR = "floor", "floor in C"
SOURCE = Path(__file__).parent / "native" / "floor_server.c"


class Floor(Broker):
    """The server, and a node behind it for all requests but Produce and Fetch: topics, metadata, producer ids."""

    name = FLOOR

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, settings)
        (port,) = free_ports(1)
        self.bootstrap = f"127.0.0.1:{port}"
        # Advertised by the node, so that clients connect to the server.
        advertised = {"advertised.listeners": f"PLAINTEXT://{self.bootstrap}"}
        self._behind = OttlaFromFile(directory / "behind", {**self.settings, **advertised})

    def start(self) -> Self:
        self._behind.start()
        self.log_directory = self._behind.log_directory
        self._spawn(self._command(port_of(self.bootstrap), port_of(self._behind.bootstrap)))
        self._wait_for("^ready")
        return self

    def topic_removed(self) -> None:
        """Removes the files outside the measurement, as brokers do, instead of with the next topic."""
        for path in self.directory.iterdir():
            if path.name.isdecimal():
                os.truncate(path, 0)

    def stop(self, *, timeout_s: float = 30.0) -> None:
        # The server needs no clean stop.
        self.kill()
        self._behind.stop(timeout_s=timeout_s)

    def _command(self, port: str, port_behind: str) -> list[str]:
        ports = ["--port", port, "--behind", port_behind]
        return [sys.executable, "-m", "bench.floor_server", *ports, "--directory", str(self.directory)]


class NativeFloor(Floor):
    """The same in C, for Produce only: the cost without an interpreter."""

    name = NATIVE_FLOOR

    def _command(self, port: str, port_behind: str) -> list[str]:
        program = self.directory / "floor_server"
        subprocess.run(["cc", "-O2", "-o", str(program), str(SOURCE)], check=True)
        return [str(program), port, port_behind, str(self.directory)]


def floors_here() -> list[type[Floor]]:
    """The minimal servers that this machine can run: the one in C needs a compiler."""
    return [Floor, NativeFloor] if shutil.which("cc") and platform.machine() == "x86_64" else [Floor]


def port_of(address: str) -> str:
    return address.rpartition(":")[2]
