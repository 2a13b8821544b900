"""The floor under a broker's CPU time: the same client, beside a server that is no broker.

`floor_server` only does what nobody can leave out: it receives each batch, checks its CRC, writes it and answers, or
sends what was written. In the same run as Apache Kafka and Ottla, with their clients, it tells how much of a ratio can
be won at all by whoever does that work in an event loop of Python, on this machine. (What a broker pays later for the
same bytes, such as removing old segments, is not in it.)
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from tests.support.brokers import Broker, OttlaFromFile, free_ports

__all__ = ["Floor"]


class Floor(Broker):
    """The server, and a node behind it for all that is neither Produce nor Fetch: topics, metadata, producer ids."""

    name = "floor"

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
        command = [sys.executable, "-m", "bench.floor_server", "--directory", str(self.directory)]
        command += ["--port", self.bootstrap.rpartition(":")[2], "--behind", self._behind.bootstrap.rpartition(":")[2]]
        self._spawn(command)
        self._wait_for("^ready")
        return self

    def stop(self, *, timeout_s: float = 30.0) -> None:
        # It has nothing to lose, and no notion of a clean end.
        self.kill()
        self._behind.stop(timeout_s=timeout_s)
