"""The server of a worker for interactive queries: one line of JSON in, one line out, on the worker's own loop.

A query sees the state between two steps of the worker, with updates that are not committed yet, as in Kafka Streams.
The answer has the position up to which the input was processed.
"""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ottla.streams.errors import StreamsError
from ottla.streams.state.reading import read_rows
from ottla.streams.state.store import Store

__all__ = ["QueriedStore", "QueryDoor", "QuerySource", "decode_arguments", "encode_arguments"]

ROWS_MAX = 10_000
_LINE_BYTES_MAX = 1 << 20
_BYTES = ("key", "first_key", "last_key", "prefix")


@dataclass(frozen=True, slots=True, kw_only=True)
class QueriedStore:
    store: Store
    is_active: bool
    # Topic -> partition -> offset up to which the store has the input, or the changelog if it is a standby copy.
    position: Mapping[str, Mapping[int, int]]
    # Records behind the changelog; 0 for active stores.
    lag: int = 0


class QuerySource(Protocol):
    """A worker."""

    def find_store(self, name: str, partition: int, *, is_stale_allowed: bool) -> QueriedStore | str:
        """A store, or the reason why there is none."""
        ...


class QueryDoor:
    def __init__(self, source: QuerySource, host: str, token: str) -> None:
        self._source = source
        self._host = host
        self._token = token
        self._server: asyncio.Server | None = None

    async def open(self) -> str:
        """Returns the address."""
        self._server = await asyncio.start_server(self._serve, self._host, 0, limit=_LINE_BYTES_MAX)
        port = self._server.sockets[0].getsockname()[1]
        return f"{self._host}:{port}"

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                request = json.loads(line)
                token = request.get("token") if isinstance(request, dict) else ""
                if not secrets.compare_digest(str(token).encode(), self._token.encode()):
                    return
                writer.write(json.dumps(self._answer(request)).encode() + b"\n")
                await writer.drain()
        except (OSError, ValueError):
            return
        finally:
            writer.close()

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            queried = self._source.find_store(
                request["store"], request["partition"], is_stale_allowed=request.get("stale", False)
            )
            if isinstance(queried, str):
                return {"error": "unavailable", "message": queried}
            behind = _behind(queried.position, request.get("bound") or {})
            if behind is not None:
                return {"error": "not up to bound", "message": behind}
            limit = min(int(request.get("limit", ROWS_MAX)), ROWS_MAX)
            rows, has_more = read_rows(
                queried.store, request["operation"], decode_arguments(request["arguments"]), limit
            )
        except StreamsError as error:
            return {"error": "refused", "message": str(error)}
        except (KeyError, TypeError, ValueError) as error:
            return {"error": "refused", "message": f"The query is not complete: {error!r}."}
        return {
            "rows": [[_text(row.key), _text(row.value), row.timestamp, row.window] for row in rows],
            "more": has_more,
            "active": queried.is_active,
            "lag": queried.lag,
            "position": queried.position,
        }


def _behind(position: Mapping[str, Mapping[int, int]], bound: Mapping[str, Mapping[str, int]]) -> str | None:
    for topic, offsets in bound.items():
        for partition, offset in offsets.items():
            known = position.get(topic, {}).get(int(partition))
            if known is not None and known < offset:
                return f"The store has {topic}-{partition} up to offset {known}, not {offset} yet; ask again."
    return None


def encode_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: {"bytes": _text(value)} if isinstance(value, bytes) else value for name, value in arguments.items()}


def decode_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: base64.b64decode(value["bytes"]) if isinstance(value, dict) else value
        for name, value in arguments.items()
    }


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
