"""Metrics on their way from a page of Prometheus to a collector of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import pytest

from ottla.cli.app import run as run_command
from ottla.monitor.otlp_export import Exporter, read_page
from ottla.wire.otlp import MetricPoint, decode_metrics
from tests.support.http_servers import AnsweringHandler, http_server

PAGE = r"""# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{api="Produce",text="a \"b\" \\ c\nd"} 12
# TYPE open gauge
open 3.5
# TYPE wait_seconds histogram
wait_seconds_bucket{le="+Inf"} 4
wait_seconds_sum 0.5
wait_seconds_count 4
open{kind="none"} NaN
this is no row
"""


class Collector(AnsweringHandler):
    """Serves a page, and keeps what is pushed."""

    pushed: ClassVar[list[tuple[str, str, bytes]]] = []

    def do_GET(self) -> None:
        self.answer(200, PAGE.encode())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        Collector.pushed.append((self.path, self.headers["Authorization"] or "", body))
        self.answer(200 if self.headers["Content-Type"] == "application/x-protobuf" else 415)


@pytest.fixture
def address() -> Iterator[str]:
    Collector.pushed = []
    with http_server(Collector) as address:
        yield f"http://{address}"


def test_rows_become_points() -> None:
    points = list(read_page(PAGE, time_ns=9, start_ns=5))
    assert points[0] == MetricPoint(
        "requests_total",
        12.0,
        (("api", "Produce"), ("text", 'a "b" \\ c\nd')),
        is_sum=True,
        time_ns=9,
        start_ns=5,
    )
    assert points[1] == MetricPoint("open", 3.5, time_ns=9)
    assert [(point.name, point.is_sum) for point in points[2:]] == [
        ("wait_seconds_bucket", True),
        ("wait_seconds_sum", True),
        ("wait_seconds_count", True),
    ]


def test_a_page_is_pushed_to_the_collector(address: str) -> None:
    (result,) = Exporter([f"{address}/metrics"], address, {"Authorization": "Bearer x"}).export()
    assert (result.points, result.error) == (5, "")
    ((path, authorization, body),) = Collector.pushed
    assert (path, authorization) == ("/v1/metrics", "Bearer x")
    assert [point.name for point in decode_metrics(body, points_max=100)][:2] == ["requests_total", "open"]


def test_what_cannot_be_reached_is_named(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    (unreadable,) = Exporter(["http://127.0.0.1:1/metrics"], address, {}).export()
    assert unreadable.error.startswith("http://127.0.0.1:1/metrics cannot be read")
    (refused,) = Exporter([f"{address}/metrics"], "http://127.0.0.1:1", {}).export()
    assert refused.error.startswith("The collector http://127.0.0.1:1/v1/metrics refuses the metrics")
    assert run_command(["monitor", "export", f"{address}/metrics", "--otlp", address, "-n", "1"]) == 0
    assert f"{address}/metrics: 5 values" in capsys.readouterr().out
    assert run_command(["monitor", "export", "http://127.0.0.1:1/metrics", "--otlp", address, "-n", "1"]) == 1
