"""The connection between an application and its workers: workers send reports, the application sends orders.

A worker whose application is gone sees the end of the connection, commits, and stops. A worker that failed reports its
error and waits for the decision of the application: to begin again, or to end.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import pickle
import secrets
import socket
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ottla.streams.errors import StreamsError

__all__ = ["Control", "ControlAddress", "ControlServer", "WorkerControl", "error_of_report"]


_LOGIN_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ControlAddress:
    host: str
    port: int
    # Connections without this token are closed.
    token: str


class ControlServer:
    """The application's end. `on_report` is called from threads of the server; it may return an order."""

    def __init__(self, on_report: Callable[[dict[str, Any]], str | None], host: str = "127.0.0.1") -> None:
        self._on_report = on_report
        self._socket = socket.create_server((host, 0))
        self._connections: set[socket.socket] = set()
        self._lock = threading.Lock()
        # The orders for workers that connect later: "stop" or "stay", "pause", "hold", "failed".
        self._orders: list[str] = []
        self.address = ControlAddress(host, self._socket.getsockname()[1], secrets.token_hex(16))
        threading.Thread(target=self._accept, name="streams-control", daemon=True).start()

    def stop_workers(self, *, leave_group: bool = True) -> None:
        """Workers commit and end. Workers that do not leave the group keep their tasks until their session ends."""
        self._broadcast("stop" if leave_group else "stay", replaces=())

    def end_failed(self, reason: str) -> None:
        """Workers commit and end, because the application has failed."""
        self._broadcast(f"failed {json.dumps(reason)}", replaces=())
        self.stop_workers()

    def pause_workers(self) -> None:
        self._broadcast("pause", replaces=("resume",))

    def resume_workers(self) -> None:
        self._broadcast("resume", replaces=("pause",))

    def hold_epoch(self) -> None:
        """Workers do not end their epoch before `release_epoch`; workers without epochs ignore both orders."""
        self._broadcast("hold", replaces=("release",))

    def release_epoch(self) -> None:
        self._broadcast("release", replaces=("hold",))

    def close(self) -> None:
        with self._lock:
            self._socket.close()
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _broadcast(self, order: str, *, replaces: tuple[str, ...]) -> None:
        with self._lock:
            self._orders = [earlier for earlier in self._orders if earlier not in replaces] + [order]
            for connection in self._connections:
                with contextlib.suppress(OSError):
                    connection.sendall(f"{order}\n".encode())

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("r", encoding="utf-8") as lines:
            connection.settimeout(_LOGIN_SECONDS)
            try:
                token = lines.readline(2 * len(self.address.token)).strip()
            except (OSError, ValueError):
                return
            if not secrets.compare_digest(token.encode(), self.address.token.encode()):
                return
            connection.settimeout(None)
            with self._lock:
                self._connections.add(connection)
                for order in self._orders:
                    connection.sendall(f"{order}\n".encode())
            try:
                for line in lines:
                    answer = self._on_report(json.loads(line))
                    if answer is not None:
                        connection.sendall(f"{answer}\n".encode())
            except (OSError, ValueError):
                return
            finally:
                with self._lock:
                    self._connections.discard(connection)


class WorkerControl(Protocol):
    """The orders of the application for a worker, and the worker's reports."""

    @property
    def is_stopped(self) -> bool: ...

    @property
    def is_paused(self) -> bool: ...

    @property
    def leaves_group(self) -> bool: ...

    def report(self, content: dict[str, Any]) -> None: ...


class Control:
    """The worker's end of the connection."""

    def __init__(self, address: ControlAddress) -> None:
        self._address = address
        self._decisions: asyncio.Queue[str] = asyncio.Queue()
        self.is_stopped = False
        self.is_paused = False
        # True if no epoch may end now; the time of the loop when the hold was over.
        self.is_held, self.released_at = False, 0.0
        # False if the worker is to stay a member of its group when it stops, because it is started again soon.
        self.leaves_group = True
        # The reason of the application's failure; None without a failure.
        self.failure: str | None = None
        self._closed = asyncio.Event()

    async def open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._address.host, self._address.port)
        self._writer.write(f"{self._address.token}\n".encode())
        self._listening = asyncio.create_task(self._listen())

    def report(self, content: dict[str, Any]) -> None:
        if not self._writer.is_closing():
            self._writer.write(f"{json.dumps(content)}\n".encode())

    async def is_to_begin_again(self, worker: int, error: Exception) -> bool:
        """Reports the failure of a worker; True if the application orders it to begin again."""
        try:
            content = base64.b64encode(pickle.dumps(error)).decode()
        except Exception:  # noqa: BLE001
            # The exception cannot be pickled; its text is enough.
            content = ""
        text = "".join(traceback.format_exception(error))
        self.report({"worker": worker, "state": "failed", "error": content, "text": text})
        return await self._decisions.get() == "replace"

    async def close(self) -> None:
        self._listening.cancel()
        with contextlib.suppress(OSError):
            await self._writer.drain()
        self._writer.close()

    async def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while line := await self._reader.readline():
                self._obey(line.strip().decode())
        self.is_stopped = True
        self._closed.set()
        self._decisions.put_nowait("end")

    async def wait_closed(self) -> None:
        """Returns when the application is gone."""
        await self._closed.wait()

    def _obey(self, order: str) -> None:
        if order in ("pause", "resume"):
            self.is_paused = order == "pause"
        elif order in ("hold", "release"):
            self.is_held, self.released_at = order == "hold", asyncio.get_running_loop().time()
        elif order in ("stop", "stay"):
            self.is_stopped = True
            self.leaves_group = order == "stop"
        elif order.startswith("failed "):
            self.failure = json.loads(order.removeprefix("failed "))
        else:
            self._decisions.put_nowait(order)


def error_of_report(report: dict[str, Any]) -> BaseException:
    """The error of a worker that failed, as it was raised there if it could be pickled."""
    text = str(report.get("text", ""))
    try:
        error = pickle.loads(base64.b64decode(report["error"]))
    except Exception:  # noqa: BLE001
        return StreamsError(f"A worker has failed:\n{text}")
    if isinstance(error, BaseException):
        error.add_note(f"In worker {report['worker']}:\n{text}")
        return error
    return StreamsError(f"A worker has failed:\n{text}")
