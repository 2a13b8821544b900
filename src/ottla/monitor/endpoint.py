"""The page `/metrics` of the monitor, on a port of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

__all__ = ["serve_metrics"]

REQUEST_BYTES_MAX = 8 * 1024
REQUEST_SECONDS_MAX = 5.0


async def serve_metrics(host: str, port: int, pages: Callable[[], Iterable[str]]) -> asyncio.Server:
    """Serves GET /metrics: as much of HTTP/1.1 as a scrape needs, one request for each connection."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), REQUEST_SECONDS_MAX)
            method, _, rest = head.partition(b" ")
            path = rest.split(b" ", 1)[0].split(b"?", 1)[0]
            if method in (b"GET", b"HEAD") and path == b"/metrics":
                status, text = "200 OK", "".join(pages())
            else:
                status, text = "404 Not Found", "The metrics are under /metrics.\n"
            body = text.encode()
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
            )
            if method != b"HEAD":
                writer.write(body)
            await asyncio.wait_for(writer.drain(), REQUEST_SECONDS_MAX)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            # The client has gone, is too slow, or does not speak HTTP: it gets no answer.
            pass
        finally:
            writer.close()

    return await asyncio.start_server(answer, host, port, limit=REQUEST_BYTES_MAX)
