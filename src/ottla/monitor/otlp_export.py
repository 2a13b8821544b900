"""Passes metrics on to OpenTelemetry: reads pages in the format of Prometheus, and pushes their values over OTLP/HTTP.

The exporter is a process beside the nodes, so a node never waits for a collector and needs no settings for it. The
page of a node also has the metrics that clients push to it (KIP-714), so they are passed on as well.
"""

from __future__ import annotations

import http.client
import math
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ottla.wire.otlp import MetricPoint, encode_metrics

__all__ = ["ExportResult", "Exporter", "read_page"]

TIMEOUT_SECONDS = 10.0
# A page that is longer is cut: a wrong address must not fill the memory.
PAGE_BYTES_MAX = 64 * 1024 * 1024

_ROW = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? ([^ ]+)(?: \d+)?")
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
# An answer that is not HTTP, or that ends early, is an HTTPException and no OSError.
_FAILURES = (OSError, ValueError, http.client.HTTPException)
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


def read_page(text: str, *, time_ns: int, start_ns: int) -> Iterator[MetricPoint]:
    """Every row of a page. Counters, and the parts of histograms and summaries that count, become sums."""
    kinds: dict[str, str] = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name, _, kind = line.removeprefix("# TYPE ").partition(" ")
            kinds[name] = kind
            continue
        match = _ROW.fullmatch(line)
        if match is None:
            continue
        name, labels, number = match.groups()
        try:
            value = float(number)
        except ValueError:
            continue
        # OpenTelemetry has no place for values that are not numbers.
        if math.isnan(value) or math.isinf(value):
            continue
        attributes = tuple((key, _unescaped(content)) for key, content in _LABEL.findall(labels or ""))
        is_sum = _counts(name, kinds)
        yield MetricPoint(name, value, attributes, is_sum=is_sum, time_ns=time_ns, start_ns=start_ns if is_sum else 0)


def _counts(name: str, kinds: Mapping[str, str]) -> bool:
    if kinds.get(name) == "counter":
        return True
    for suffix in ("_bucket", "_count", "_sum"):
        if name.endswith(suffix) and kinds.get(name.removesuffix(suffix)) in ("histogram", "summary"):
            return True
    return False


def _unescaped(text: str) -> str:
    return re.sub(r'\\[\\"n]', lambda match: _ESCAPES[match[0]], text)


class ExportResult(NamedTuple):
    page: str
    points: int
    # Empty after a success.
    error: str


class Exporter:
    """Reads and pushes the pages one after the other. Blocking: it runs in a thread."""

    def __init__(self, pages: list[str], collector: str, headers: Mapping[str, str]) -> None:
        self._pages = pages
        self._collector = (
            collector if collector.rstrip("/").endswith("/v1/metrics") else f"{collector.rstrip('/')}/v1/metrics"
        )
        self._headers = dict(headers)
        # The collector sees a restart of the exporter as a restart of the counters.
        self._start_ns = time.time_ns()

    def export(self) -> list[ExportResult]:
        return [self._export(page) for page in self._pages]

    def _export(self, page: str) -> ExportResult:
        try:
            with urllib.request.urlopen(page, timeout=TIMEOUT_SECONDS) as answer:
                text = _content(answer).decode(errors="replace")
        except _FAILURES as error:
            return ExportResult(page, 0, f"{page} cannot be read: {error}.")
        points = list(read_page(text, time_ns=time.time_ns(), start_ns=self._start_ns))
        resource = {"service.name": "ottla", "service.instance.id": page}
        request = urllib.request.Request(
            self._collector,
            data=encode_metrics(points, resource),
            headers={"Content-Type": "application/x-protobuf", **self._headers},
            method="POST",
        )
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS):
                return ExportResult(page, len(points), "")
        except _FAILURES as error:
            return ExportResult(page, 0, f"The collector {self._collector} refuses the metrics: {error}.")


def _content(answer: http.client.HTTPResponse) -> bytes:
    """The page up to the limit, in whole lines. A page that ends early is refused: its last number may be cut."""
    body = answer.read(PAGE_BYTES_MAX)
    if len(body) == PAGE_BYTES_MAX:
        return body[: body.rfind(b"\n") + 1]
    if answer.length:
        raise http.client.IncompleteRead(body, answer.length)
    return body
