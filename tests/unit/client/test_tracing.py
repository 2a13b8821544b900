"""Traces travel in headers. A stand-in takes the place of OpenTelemetry, which tests do not install."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ottla.client.config import read_producer
from ottla.client.consumer.decode import ConsumedRecord
from ottla.client.errors import ClientError
from ottla.client.producer import OutgoingRecord
from ottla.client.tracing import ConsumerTracing, ProducerTracing, context_of

RECORD = OutgoingRecord("t", b"v", b"k", [("mine", b"1"), ("traceparent", b"older")], None, None)


class Tracer:
    def __init__(self) -> None:
        self.spans: list[tuple[str, str, Any]] = []

    @contextmanager
    def start_as_current_span(self, name: str, *, kind: str, attributes: dict[str, Any]) -> Iterator[None]:
        self.spans.append((name, kind, attributes["messaging.destination.name"]))
        yield

    def start_span(self, name: str, *, context: Any, kind: str, attributes: dict[str, Any]) -> Any:
        self.spans.append((name, kind, (context, attributes["messaging.kafka.offset"])))
        return SimpleNamespace(end=lambda: None)


@pytest.fixture
def tracer(monkeypatch: pytest.MonkeyPatch) -> Tracer:
    tracer = Tracer()
    package: Any = ModuleType("opentelemetry")
    package.trace = SimpleNamespace(
        get_tracer=lambda _name: tracer, SpanKind=SimpleNamespace(PRODUCER="producer", CONSUMER="consumer")
    )
    package.propagate = SimpleNamespace(
        inject=lambda carried: carried.update(traceparent="00-now"), extract=lambda carried: carried["traceparent"]
    )
    monkeypatch.setitem(sys.modules, "opentelemetry", package)
    return tracer


def test_the_context_of_a_send_replaces_an_older_one(tracer: Tracer) -> None:
    sent = ProducerTracing().on_send(RECORD)
    assert sent.headers == [("mine", b"1"), ("traceparent", b"00-now")]
    assert tracer.spans == [("send t", "producer", "t")]


def test_a_polled_record_belongs_to_the_trace_of_its_send(tracer: Tracer) -> None:
    record = ConsumedRecord("t", 1, 7, 0, 0, None, b"v", [("traceparent", b"00-then"), ("empty", None)], 0)
    assert ConsumerTracing().on_consume([record]) == [record]
    assert tracer.spans == [("poll t", "consumer", ("00-then", 7))]
    assert context_of(record) == "00-then"


def test_without_the_library_the_setting_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ClientError, match="pip install opentelemetry-api"):
        read_producer({"bootstrap.servers": "a:1", "interceptor.classes": "ottla.client.tracing:ProducerTracing"})
