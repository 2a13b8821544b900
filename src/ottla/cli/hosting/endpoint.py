"""`/metrics`, `/health/live` and `/health/ready` of all nodes of a machine, over HTTP or HTTPS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence
from contextlib import suppress

from ottla.cli.hosting.machine import Machine
from ottla.cli.hosting.node_child import NodeState
from ottla.cli.hosting.pages import joined_metrics

__all__ = ["HTTPS", "HostEndpoint", "read_page"]

HTTPS = "https://"

REQUEST_SECONDS_MAX = 5.0
PAGE_SECONDS_MAX = 30.0
# Shorter than Prometheus' default limit of 10 s, so that a node that does not answer costs only its own metrics.
NODE_PAGE_SECONDS_MAX = 5.0
REQUEST_BYTES_MAX = 8 * 1024
PAGE_BYTES_MAX = 256 * 1024 * 1024
CONNECTIONS_MAX = 32

_TEXT = "text/plain; charset=utf-8"
_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def read_page(url: str) -> str:
    """A page of a node of this machine. Raises OSError."""
    address, _, path = url.removeprefix("http://").partition("/")
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(NODE_PAGE_SECONDS_MAX):
            reader, writer = await asyncio.open_connection(host, int(port), limit=PAGE_BYTES_MAX)
            try:
                writer.write(f"GET /{path} HTTP/1.1\r\nhost: {address}\r\n\r\n".encode())
                head = await reader.readuntil(b"\r\n\r\n")
                body = await reader.read(-1)
            finally:
                writer.close()
    except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise OSError(f"{url} does not answer: {type(error).__name__}") from None
    if b" 200 " not in head.split(b"\r\n", 1)[0]:
        raise OSError(f"{url} answers with {head.split(b' ', 2)[1].decode()}")
    return body.decode("utf-8", "replace")


class HostEndpoint:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._connections = 0
        self._server: asyncio.Server | None = None
        # Scrapes that arrive while a page is rendered share that page.
        self._rendering: asyncio.Task[str] | None = None
        self._suites: Sequence[str] = ()

    async def open(self, address: str, context: ssl.SSLContext | None = None, suites: Sequence[str] = ()) -> str:
        """Listens, with TLS if there is a context; returns the URL. OpenSSL may allow more suites than are named."""
        self._suites = suites
        host, _, port = address[len(HTTPS) if context is not None else 0 :].rpartition(":")
        self._server = await asyncio.start_server(
            self._serve,
            host.strip("[]"),
            int(port),
            limit=REQUEST_BYTES_MAX,
            ssl=context,
            ssl_handshake_timeout=None if context is None else REQUEST_SECONDS_MAX,
        )
        scheme = "http" if context is None else "https"
        return f"{scheme}://{host}:{self._server.sockets[0].getsockname()[1]}/metrics"

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections += 1
        try:
            if self._connections <= CONNECTIONS_MAX and self._is_allowed(writer):
                async with asyncio.timeout(REQUEST_SECONDS_MAX):
                    head = await reader.readuntil(b"\r\n\r\n")
                async with asyncio.timeout(PAGE_SECONDS_MAX):
                    writer.write(await self._answer(head))
                    await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            self._connections -= 1
            with suppress(OSError):
                writer.close()

    def _is_allowed(self, writer: asyncio.StreamWriter) -> bool:
        if not self._suites:
            return True
        from ottla.tls.ciphers import is_allowed

        return is_allowed(writer.get_extra_info("cipher")[0], self._suites)

    async def _answer(self, head: bytes) -> bytes:
        words = head.split(b"\r\n", 1)[0].split()
        if len(words) < 2 or words[0] not in (b"GET", b"HEAD"):
            return _response(405, _TEXT, "only GET and HEAD\n")
        path = words[1].split(b"?", 1)[0]
        if path == b"/metrics":
            answer = _response(200, _METRICS_TYPE, await self._metrics())
        elif path == b"/health/live":
            answer = _response(200, _TEXT, "live\n")
        elif path == b"/health/ready":
            unready = self._machine.unready
            text = "ready\n" if not unready else f"not ready: node {', '.join(map(str, unready))}\n"
            answer = _response(503 if unready else 200, _TEXT, text)
        else:
            answer = _response(404, _TEXT, "/metrics, /health/live or /health/ready\n")
        return answer if words[0] == b"GET" else answer.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"

    async def _metrics(self) -> str:
        if self._rendering is None or self._rendering.done():
            self._rendering = asyncio.create_task(self._render())
        return await asyncio.shield(self._rendering)

    async def _render(self) -> str:
        nodes = [node for node in self._machine.nodes if node.state is NodeState.READY and node.metrics_url]
        pages = await asyncio.gather(*(read_page(node.metrics_url or "") for node in nodes), return_exceptions=True)
        page_by_node = {node.node_id: page for node, page in zip(nodes, pages, strict=True) if isinstance(page, str)}
        return joined_metrics(page_by_node) + self._own_metrics(page_by_node)

    def _own_metrics(self, page_by_node: dict[int, str]) -> str:
        lines = [
            "# HELP ottla_host_node_up 1 if the node of this machine shows its metrics.",
            "# TYPE ottla_host_node_up gauge",
        ]
        lines += [
            f'ottla_host_node_up{{node="{node.node_id}"}} {int(node.node_id in page_by_node)}'
            for node in self._machine.nodes
        ]
        lines += [
            "# HELP ottla_host_node_restarts_total How often the node has ended by itself.",
            "# TYPE ottla_host_node_restarts_total counter",
        ]
        lines += [
            f'ottla_host_node_restarts_total{{node="{node.node_id}"}} {node.restarts.count}'
            for node in self._machine.nodes
        ]
        return "\n".join(lines) + "\n"


def _response(status: int, content_type: str, text: str) -> bytes:
    reasons = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}
    body = text.encode()
    head = (
        f"HTTP/1.1 {status} {reasons[status]}\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n"
        "connection: close\r\n\r\n"
    )
    return head.encode() + body
