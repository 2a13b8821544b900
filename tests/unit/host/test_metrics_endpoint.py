"""The HTTP endpoint, asked over real sockets on a real loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from ottla.host import loop_watch, metrics_endpoint
from ottla.host.listener import SocketOptions, bind
from ottla.host.loop import new_event_loop
from ottla.host.loop_watch import INTERVAL_SECONDS, LoopWatch
from ottla.host.metrics_endpoint import CONNECTIONS_MAX, REQUEST_BYTES_MAX, MetricsEndpoint
from ottla.host.process_figures import process_figures

OPTIONS = SocketOptions(send_buffer_bytes=-1, receive_buffer_bytes=-1, backlog_size=64)


class Pages:
    def __init__(self) -> None:
        self.text: Callable[[], Iterator[str]] | None = lambda: iter(["a 1\n", "b 2\n"])
        self.reason: str | None = None
        self.steps: list[float] = []

    def metrics(self) -> tuple[str, Iterator[str]] | None:
        return None if self.text is None else ("text/plain; version=0.0.4", self.text())

    def count_scrape_step(self, seconds: float) -> None:
        self.steps.append(seconds)

    def unready(self) -> str | None:
        return self.reason


def run(test: Callable[[MetricsEndpoint, Pages], Coroutine[Any, Any, None]]) -> None:
    loop = new_event_loop()
    try:
        pages = Pages()
        endpoint = MetricsEndpoint(loop=loop, bound_socket=bind("127.0.0.1", 0, OPTIONS), pages=pages)
        loop.run_until_complete(asyncio.wait_for(test(endpoint, pages), 60))
        endpoint.close()
        endpoint.close()
    finally:
        loop.close()
        asyncio.set_event_loop(None)


async def ask(endpoint: MetricsEndpoint, request: bytes) -> tuple[int, dict[str, str], str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    head, _, body = answer.decode().partition("\r\n\r\n")
    status, *lines = head.split("\r\n")
    return int(status.split()[1]), dict(line.split(": ", 1) for line in lines), body


async def get(endpoint: MetricsEndpoint, path: str, method: str = "GET") -> tuple[int, dict[str, str], str]:
    return await ask(endpoint, f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())


def test_paths_and_methods() -> None:
    async def test(endpoint: MetricsEndpoint, pages: Pages) -> None:
        status, headers, body = await get(endpoint, "/metrics?name=x")
        assert (status, body, headers["Content-Length"]) == (200, "a 1\nb 2\n", "8")
        assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
        assert await get(endpoint, "/metrics", "HEAD") == (200, headers, "")
        assert (await get(endpoint, "/health/live"))[0] == 200
        assert (await get(endpoint, "/health/ready"))[0] == 200
        assert (await get(endpoint, "/"))[0] == 200
        assert (await get(endpoint, "/nothing"))[0] == 404
        assert (await get(endpoint, "/metrics", "POST"))[0] == 405
        assert (await ask(endpoint, b"hello\r\n\r\n"))[0] == 400
        pages.reason = "the node is stopping"
        assert (await get(endpoint, "/health/ready"))[::2] == (503, "the node is stopping\n")
        assert (await get(endpoint, "/health/live"))[0] == 200
        pages.text = None
        assert (await get(endpoint, "/metrics"))[0] == 503

    run(test)


def test_a_request_may_come_in_pieces_but_has_a_limit() -> None:
    async def test(endpoint: MetricsEndpoint, pages: Pages) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        for piece in (b"GET /health/", b"live HTTP/1.1\r\n", b"\r", b"\n"):
            writer.write(piece)
            await writer.drain()
        assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
        writer.close()
        assert (await ask(endpoint, b"GET / HTTP/1.1\r\nX: " + b"x" * REQUEST_BYTES_MAX))[0] == 431

    run(test)


def test_a_long_scrape_lets_the_loop_work_and_arrives_whole() -> None:
    async def test(endpoint: MetricsEndpoint, pages: Pages) -> None:
        turns = 0
        turns_at_portions = []

        def count() -> None:
            nonlocal turns
            turns += 1
            asyncio.get_running_loop().call_soon(count)

        def slow() -> Iterator[str]:
            for number in range(50):
                turns_at_portions.append(turns)
                end = time.monotonic() + 0.001
                while time.monotonic() < end:
                    pass
                yield f"m{number} {'1' * 20000}\n"

        pages.text = slow
        asyncio.get_running_loop().call_soon(count)
        status, _, body = await get(endpoint, "/metrics")
        assert status == 200
        assert body.count("\n") == 50
        assert len(set(turns_at_portions)) > 10, "the loop stood still"
        assert sum(pages.steps) >= 0.04, "what the scrape has cost the others is known"
        assert len(pages.steps) > 10

    run(test)


def test_a_defect_costs_one_scrape(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> Iterator[str]:
        yield "a 1\n"
        raise KeyError("nothing there")

    async def test(endpoint: MetricsEndpoint, pages: Pages) -> None:
        pages.text = broken
        assert (await get(endpoint, "/metrics"))[0] == 500
        pages.text = lambda: iter(["a 1\n"])
        assert (await get(endpoint, "/metrics"))[0] == 200

    run(test)
    assert "a scrape failed" in caplog.text


async def half_sent(endpoint: MetricsEndpoint) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
    writer.write(b"GET /metrics HT")
    await writer.drain()
    return reader, writer


def test_half_sent_requests_keep_no_scraper_out() -> None:
    async def test(endpoint: MetricsEndpoint, pages: Pages) -> None:
        held = [await half_sent(endpoint) for _ in range(3 * CONNECTIONS_MAX)]
        assert (await get(endpoint, "/metrics"))[0] == 200
        for reader, _ in held[: 2 * CONNECTIONS_MAX]:
            assert await reader.read() == b"", "the oldest make room"
        for _, writer in held:
            writer.close()

    run(test)


def test_a_half_sent_request_has_a_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_endpoint, "REQUEST_SECONDS_MAX", 0.05)

    async def test(endpoint: MetricsEndpoint, pages: Pages) -> None:
        reader, writer = await half_sent(endpoint)
        assert await reader.read() == b""
        writer.close()

    run(test)


def test_a_tls_client_is_turned_away_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_endpoint, "REQUEST_SECONDS_MAX", 3600)

    async def test(endpoint: MetricsEndpoint, pages: Pages) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        writer.write(bytes.fromhex("16030102000100"))
        assert await reader.read() == b""
        writer.close()

    run(test)


def test_many_scrapers_share_two_renderings_and_are_bounded() -> None:
    async def test(endpoint: MetricsEndpoint, pages: Pages) -> None:
        may_end = asyncio.Event()
        renderings = 0

        def held_back() -> Iterator[str]:
            nonlocal renderings
            renderings += 1
            while not may_end.is_set():
                yield ""
            yield f"a {renderings}\n"

        pages.text = held_back
        scrapes = [asyncio.create_task(get(endpoint, "/metrics")) for _ in range(CONNECTIONS_MAX)]
        while sum(not connection.is_reading for connection in endpoint._connections) < CONNECTIONS_MAX:
            await asyncio.sleep(0)
        reader, writer = await asyncio.open_connection("127.0.0.1", endpoint.port)
        assert await reader.read() == b"", "scrapes that are being rendered are not evicted"
        writer.close()
        may_end.set()
        answers = await asyncio.gather(*scrapes)
        assert [status for status, _, _ in answers] == [200] * CONNECTIONS_MAX
        assert sorted({body for _, _, body in answers}) == ["a 1\n", "a 2\n"]
        assert renderings == 2

    run(test)


def test_a_rendering_that_no_scraper_waits_for_ends() -> None:
    async def test(endpoint: MetricsEndpoint, pages: Pages) -> None:
        steps = 0

        def endless() -> Iterator[str]:
            nonlocal steps
            while True:
                steps += 1
                yield ""

        pages.text = endless
        scrape = asyncio.create_task(get(endpoint, "/metrics"))
        while not steps:
            await asyncio.sleep(0)
        for connection in list(endpoint._connections):
            connection.close()
        with pytest.raises(IndexError):
            await scrape
        pages.text = lambda: iter(["a 1\n"])
        assert (await get(endpoint, "/metrics"))[0] == 200

    run(test)


class ClockByHand:
    """The clock and the thread's CPU time, and a loop whose timers go off when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0
        self.cpu = 7.0
        self.planned: list[tuple[float, Callable[[], None]]] = []
        self.cancelled = 0

    def monotonic(self) -> float:
        return self.now

    def thread_time(self) -> float:
        return self.cpu

    def call_later(self, seconds: float, callback: Callable[[], None]) -> ClockByHand:
        self.planned.append((self.now + seconds, callback))
        return self

    def cancel(self) -> None:
        self.cancelled += 1


def test_the_watch_sees_a_loop_that_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ClockByHand()
    monkeypatch.setattr(loop_watch, "time", clock)
    watch = LoopWatch(clock)  # type: ignore[arg-type]
    watch.start()
    assert watch.idle_ratio() == 1.0
    [(due, on_time)] = clock.planned
    assert due == clock.now + INTERVAL_SECONDS
    clock.now = due + 0.2
    clock.cpu += 0.6
    on_time()
    assert watch.delay_seconds == pytest.approx(0.2)
    assert watch.delays[int(0.2e6).bit_length()] == sum(watch.delays) == 1
    assert watch.idle_ratio() == pytest.approx(1 - 0.6 / 0.7)
    assert len(clock.planned) == 2
    watch.close()
    assert clock.cancelled == 1


def test_the_watch_looks_again_and_again() -> None:
    loop = new_event_loop()
    try:
        watch = LoopWatch(loop)
        watch.start()

        async def wait() -> None:
            while sum(watch.delays) < 2:
                await asyncio.sleep(0.01)

        loop.run_until_complete(wait())
        watch.close()
    finally:
        loop.close()
        asyncio.set_event_loop(None)


def test_figures_of_the_process() -> None:
    figures = process_figures()
    assert figures.cpu_seconds > 0
    assert figures.virtual_bytes > figures.resident_bytes > 1_000_000
    assert 3 <= figures.open_files < figures.open_files_max
    assert len(figures.garbage_collections) == 3
