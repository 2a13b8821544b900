"""Answers that go on: server-sent events, and lines of JSON."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from aiohttp import web

from ottla.console.answers import to_json
from ottla.console.call import Call

__all__ = ["end_with", "event", "opened_stream"]

LAST_WRITE_SECONDS = 1.0


async def opened_stream(call: Call, content_type: str) -> web.StreamResponse:
    answer = web.StreamResponse(headers={"Content-Type": content_type, "Cache-Control": "no-store"})
    await answer.prepare(call.request)
    return answer


def event(name: str, value: Any) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + to_json(value) + b"\n\n"


async def end_with(call: Call, answer: web.StreamResponse, data: bytes) -> None:
    """The last that a browser gets. A browser that does not read does not keep the stream open."""
    try:
        async with asyncio.timeout(LAST_WRITE_SECONDS):
            with suppress(ConnectionResetError):
                await answer.write(data)
    except TimeoutError:
        if call.request.transport is not None:
            call.request.transport.abort()
