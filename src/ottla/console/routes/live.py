"""The stream of live figures, and its recent past."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from aiohttp import web

from ottla.console.answers import error_body
from ottla.console.call import Call, Route
from ottla.console.event_streams import end_with, event, opened_stream
from ottla.console.sessions import SessionEnded

__all__ = ["LIVE_ROUTES"]

logger = logging.getLogger(__name__)

ALIVE_SECONDS = 10.0


async def _live(call: Call) -> web.StreamResponse:
    async with call.services.streams.turn(call.owner):
        answer = await opened_stream(call, "text/event-stream")
        try:
            async with call.streaming(), call.account.live.watched() as queue:
                while True:
                    await answer.write(await _next(queue))
        except SessionEnded as error:
            await end_with(call, answer, event("error", error_body(error)[1]))
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
