"""`ottla monitor export` continues after an answer that is no page, or that ends early."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pytest

from ottla.monitor.otlp_export import Exporter, read_page
from ottla.wire.otlp import decode_metrics
from tests.support.http_servers import AnsweringHandler, http_server

CUT = b"# TYPE open gauge\nopen 3.5\nbytes 12"


class Collector(AnsweringHandler):
    """Serves a page that ends early, an answer that is not HTTP, and a whole page; keeps what is pushed."""

    pushed: ClassVar[list[bytes]] = []

    def do_GET(self) -> None:
        if self.path == "/whole":
            self.answer(200, b"# TYPE open\nopen 3.5\n")
        elif self.path == "/cut":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n" + CUT)
        else:
            self.wfile.write(b"SSH-2.0-OpenSSH\r\n")
        self.close_connection = True

    def do_POST(self) -> None:
        Collector.pushed.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.answer(200)


@pytest.fixture
def address() -> Iterator[str]:
    Collector.pushed = []
    with http_server(Collector) as address:
        yield f"http://{address}"


def test_a_page_that_fails_does_not_end_the_export(address: str) -> None:
    pages = [f"{address}/{name}" for name in ("cut", "ssh", "whole")]
    results = Exporter(pages, address, {}).export()
    assert [(result.points, bool(result.error)) for result in results] == [(0, True), (0, True), (1, False)]
    assert len(Collector.pushed) == 1
    points = decode_metrics(Collector.pushed[0], points_max=10)
    assert [(point.name, point.value) for point in points] == [("open", 3.5)]


def test_a_type_without_a_kind_is_skipped() -> None:
    assert [point.name for point in read_page("# TYPE open\nopen 1\n", time_ns=9, start_ns=5)] == ["open"]
