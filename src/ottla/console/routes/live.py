"""The stream of live figures, and its recent past."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from ottla.console.call import Call, Route
from ottla.console.event_streams import error_event, failing_aloud, opened_stream

__all__ = ["LIVE_ROUTES"]

ALIVE_SECONDS = 10.0


async def _live(call: Call) -> web.StreamResponse:
    async with call.services.streams.turn(call.owner):
        answer = await opened_stream(call, "text/event-stream")
        async with failing_aloud(call, answer, error_event), call.streaming(), call.account.live.watched() as queue:
            while True:
                await answer.write(await _next(queue))
        return answer


async def _next(queue: asyncio.Queue[bytes]) -> bytes:
    try:
        async with asyncio.timeout(ALIVE_SECONDS):
            return await queue.get()
    except TimeoutError:
        return b": alive\n\n"


async def _history(call: Call) -> dict[str, Any]:
    return {"points": call.account.live.history()}


LIVE_ROUTES = (Route("GET", "/api/live", _live, patience_ms=None), Route("GET", "/api/live/history", _history))
