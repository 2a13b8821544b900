"""The socket through which commands reach a running host: a line of JSON each way.

Its file is beside the properties file of the host, and only the user of the host may open it.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from ottla.cli.hosting.plan import HostError

__all__ = ["ControlSocket", "ask", "socket_path"]

LINE_BYTES_MAX = 64 * 1024
# The longest path of a socket on Linux is 107 bytes.
_PATH_BYTES_MAX = 100

Handler = Callable[[], Awaitable[list[dict[str, Any]]]]


def socket_path(config_file: str) -> str:
    path = f"{os.path.abspath(config_file)}.sock"
    if len(os.fsencode(path)) > _PATH_BYTES_MAX:
        raise HostError(f"The path of {config_file} is too long for the socket beside it: use a shorter one.")
    return path


class ControlSocket:
    def __init__(self, handlers: dict[str, Handler]) -> None:
        self._handlers = handlers
        self._server: asyncio.Server | None = None
        self._path = ""

    async def open(self, path: str) -> None:
        # A killed host leaves its socket behind. The lock has already shown that no other host runs.
        with suppress(FileNotFoundError):
            os.unlink(path)
        mask = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._serve, path, limit=LINE_BYTES_MAX)
        finally:
            os.umask(mask)
        self._path = path

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            with suppress(FileNotFoundError):
                os.unlink(self._path)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ValueError):
            word = (await reader.readline()).decode().strip()
            try:
                handler = self._handlers.get(word)
                answer = {"error": f"A host cannot {word}."} if handler is None else {"nodes": await handler()}
            except HostError as error:
                answer = {"error": str(error)}
            writer.write(f"{json.dumps(answer)}\n".encode())
            await writer.drain()
        writer.close()


def ask(config_file: str, word: str, *, timeout_seconds: float | None) -> list[dict[str, Any]]:
    """The answer of the running host of a properties file. Raises HostError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as line:
        line.settimeout(timeout_seconds)
        try:
            line.connect(socket_path(config_file))
            line.sendall(f"{word}\n".encode())
            with line.makefile("r", encoding="utf-8") as answers:
                text = answers.readline()
        except (FileNotFoundError, ConnectionRefusedError):
            raise HostError(
                f"No host runs with {config_file}. To start it: ottla host --config {config_file}"
            ) from None
        except OSError as error:
            raise HostError(f"The host of {config_file} does not answer: {error}.") from None
    if not text:
        raise HostError(f"The host of {config_file} has ended.")
    answer = json.loads(text)
    if "error" in answer:
        raise HostError(answer["error"])
    nodes: list[dict[str, Any]] = answer["nodes"]
    return nodes
