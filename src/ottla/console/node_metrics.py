"""Bytes in and out of nodes of Ottla, from their metrics pages."""

from __future__ import annotations

import asyncio
import re
import time

from aiohttp import ClientError, ClientSession, ClientTimeout

from ottla.console.bodies import whole_body

__all__ = ["NodeMetrics", "Traffic", "parse_totals"]

_TOTAL = re.compile(rb"^kafka_server_brokertopicmetrics_(bytesin|bytesout|messagesin)_total (\d+)", re.MULTILINE)
TIMEOUT_SECONDS = 2.0
PAGE_BYTES_MAX = 64 * 1024 * 1024
# A large page is read less often: the average is at most this number of bytes per second.
BYTES_PER_SECOND_MAX = 256 * 1024

Traffic = dict[str, float]


def parse_totals(page: bytes) -> dict[str, int]:
    """The totals of a node, without those of single topics."""
    return {match[1].decode(): int(match[2]) for match in _TOTAL.finditer(page)}


class NodeMetrics:
    """Rates since the previous pages. A node whose page cannot be read is left out."""

    def __init__(self, urls: tuple[str, ...]) -> None:
        self._urls = urls
        self._session: ClientSession | None = None
        self._previous: dict[str, tuple[float, dict[str, int]]] = {}
        self._rates: dict[str, Traffic] = {}
        self._next_at = 0.0

    @property
    def is_known(self) -> bool:
        return bool(self._urls)

    async def traffic(self) -> Traffic | None:
        """`bytesin`, `bytesout` and `messagesin` per second, of all nodes together. None if they are not known."""
        if not self._urls:
            return None
        if time.monotonic() >= self._next_at:
            sizes = await asyncio.gather(*map(self._read, self._urls))
            self._next_at = time.monotonic() + sum(sizes) / BYTES_PER_SECOND_MAX
        if not self._rates:
            return None
        names = ("bytesin", "bytesout", "messagesin")
        return {name: sum(rates.get(name, 0.0) for rates in self._rates.values()) for name in names}

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def _read(self, url: str) -> int:
        if self._session is None:
            self._session = ClientSession(timeout=ClientTimeout(total=TIMEOUT_SECONDS))
        try:
            async with self._session.get(url) as answer:
                page = await whole_body(answer, PAGE_BYTES_MAX)
        except (ClientError, TimeoutError, OSError, ValueError):
            self._previous.pop(url, None)
            self._rates.pop(url, None)
            return 0
        now, totals = time.monotonic(), parse_totals(page)
        if url in self._previous:
            at, previous = self._previous[url]
            self._rates[url] = {
                name: max(total - previous.get(name, 0), 0) / max(now - at, 1e-3) for name, total in totals.items()
            }
        self._previous[url] = (now, totals)
        return len(page)
