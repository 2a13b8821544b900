"""The line between an application and its workers: workers report, the application tells them to stop.

A worker whose application is gone sees the end of the connection, commits, and stops.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Control", "ControlAddress", "ControlServer"]


@dataclass(frozen=True, slots=True)
class ControlAddress:
    host: str
    port: int
    # Connections without it are closed.
    token: str


class ControlServer:
    """In the process of the application. `on_report` is called from threads of the server."""

    def __init__(self, on_report: Callable[[dict[str, Any]], None], host: str = "127.0.0.1") -> None:
        self._on_report = on_report
        self._socket = socket.create_server((host, 0))
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._is_stopping = False
        self.address = ControlAddress(host, self._socket.getsockname()[1], secrets.token_hex(16))
        threading.Thread(target=self._accept, name="streams-control", daemon=True).start()

    def stop_workers(self) -> None:
        with self._lock:
            self._is_stopping = True
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.sendall(b"stop\n")

    def close(self) -> None:
        with self._lock:
            self._socket.close()
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("r", encoding="utf-8") as lines:
            if lines.readline().strip() != self.address.token:
                return
            with self._lock:
                self._connections.add(connection)
                if self._is_stopping:
                    connection.sendall(b"stop\n")
            try:
                for line in lines:
                    self._on_report(json.loads(line))
            except (OSError, ValueError):
                return
            finally:
                with self._lock:
                    self._connections.discard(connection)


class Control:
    """In a worker."""

    def __init__(self, address: ControlAddress) -> None:
        self._address = address
        self.is_stopped = False

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._address.host, self._address.port)
        self._writer.write(f"{self._address.token}\n".encode())
        self._listening = asyncio.create_task(self._listen())

    def report(self, content: dict[str, Any]) -> None:
        if not self._writer.is_closing():
            self._writer.write(f"{json.dumps(content)}\n".encode())

    async def close(self) -> None:
        self._listening.cancel()
        with contextlib.suppress(OSError):
            await self._writer.drain()
        self._writer.close()

    async def _listen(self) -> None:
        with contextlib.suppress(OSError):
            await self._reader.readline()
        self.is_stopped = True
