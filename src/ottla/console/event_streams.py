"""Streaming answers: server-sent events, and lines of JSON.

The status of a stream is sent long before the stream can fail, so an error is its last event or line.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiohttp import web

from ottla.console.answers import error_body, to_json
from ottla.console.call import Call

__all__ = ["error_event", "event", "failing_aloud", "opened_stream"]

logger = logging.getLogger(__name__)

LAST_WRITE_SECONDS = 1.0


async def opened_stream(call: Call, content_type: str) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"Content-Type": content_type, "Cache-Control": "no-store"})
    await answer.prepare(call.request)
    return answer


def event(name: str, value: Any) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + to_json(value) + b"\n\n"


def error_event(body: dict[str, Any]) -> bytes:
    return event("error", body)


@asynccontextmanager
async def failing_aloud(
    call: Call, answer: web.StreamResponse, ending: Callable[[dict[str, Any]], bytes]
) -> AsyncIterator[None]:
    """Sends an error that is raised inside as the end of the stream. A browser that disconnects ends it, too."""
    try:
        yield
    except ConnectionResetError:
        logger.debug("The browser has closed %s", call.request.path)
    except Exception as error:
        status, body = error_body(error)
        if status == 500:
            logger.exception("%s %s failed", call.request.method, call.request.path)
        await _end_with(call, answer, ending(body))


async def _end_with(call: Call, answer: web.StreamResponse, data: bytes) -> None:
    """Writes the last data of a stream. A browser that does not read cannot keep the stream open."""
    try:
        async with asyncio.timeout(LAST_WRITE_SECONDS):
            with suppress(ConnectionResetError):
                await answer.write(data)
    except TimeoutError:
        if call.request.transport is not None:
            call.request.transport.abort()
