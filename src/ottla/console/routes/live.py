"""The stream of live figures, and its recent past."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from aiohttp import web

from ottla.console.call import Call, Route

__all__ = ["LIVE_ROUTES"]

logger = logging.getLogger(__name__)

ALIVE_SECONDS = 10.0


async def _live(call: Call) -> web.StreamResponse:
    async with call.services.streams.turn():
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
        await answer.prepare(call.request)
        try:
            async with call.account.live.watched() as queue:
                while True:
                    await answer.write(await _next(queue))
        except ConnectionResetError:
            logger.debug("A live page was closed")
        return answer


async def _next(queue: asyncio.Queue[bytes]) -> bytes:
    try:
        async with asyncio.timeout(ALIVE_SECONDS):
            return await queue.get()
    except TimeoutError:
        return b": alive\n\n"


async def _history(call: Call) -> dict[str, Any]:
    return {"points": call.account.live.history()}


LIVE_ROUTES = (Route("GET", "/api/live", _live), Route("GET", "/api/live/history", _history))
