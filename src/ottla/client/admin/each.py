"""One request for each of many ids: every id gets its result or its error."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from ottla.client.errors import ConnectionLost, TimedOut
from ottla.model.errors import ErrorCode, KafkaError

__all__ = ["ask_each"]

T = TypeVar("T")

# Requests at the same time: thousands of ids must not fill the connections.
PARALLEL_MAX = 100


async def ask_each(ids: Iterable[str], ask: Callable[[str], Awaitable[T]]) -> dict[str, T | KafkaError]:
    """The result or the error of every id. A coordinator that does not answer costs only its own ids."""
    turns = asyncio.Semaphore(PARALLEL_MAX)

    async def answer(key: str) -> T | KafkaError:
        async with turns:
            try:
                return await ask(key)
            except KafkaError as error:
                return error
            except ConnectionLost as error:
                return KafkaError(ErrorCode.NETWORK_EXCEPTION, str(error))
            except TimedOut as error:
                return KafkaError(ErrorCode.REQUEST_TIMED_OUT, str(error))

    unique_ids = list(dict.fromkeys(ids))
    return dict(zip(unique_ids, await asyncio.gather(*map(answer, unique_ids)), strict=True))
