"""OpenTelemetry for producers and consumers: spans, and the context of a trace in the headers of records.

    Producer({..., "interceptor.classes": "ottla.client.tracing:ProducerTracing"})
    Consumer({..., "interceptor.classes": "ottla.client.tracing:ConsumerTracing"})

Needs `opentelemetry-api`. A send is a span of kind PRODUCER, whose context travels in the headers `traceparent` and
`tracestate`. A polled record is a span of kind CONSUMER in that trace. `context_of` gives the context of a record to
the code that processes it.
"""

from __future__ import annotations

from typing import Any

from ottla.client.consumer.decode import ConsumedRecord
from ottla.client.consumer.interceptors import ConsumerInterceptor
from ottla.client.errors import ClientError
from ottla.client.producer.interceptors import OutgoingRecord, ProducerInterceptor

__all__ = ["ConsumerTracing", "ProducerTracing", "context_of"]

_TRACER = "ottla.client"


def _library() -> tuple[Any, Any]:
    try:
        from opentelemetry import propagate, trace
    except ImportError:
        raise ClientError("Tracing needs OpenTelemetry: pip install opentelemetry-api.") from None
    return trace, propagate


class ProducerTracing(ProducerInterceptor):
    """A span for every send; headers of an earlier trace are replaced."""

    def __init__(self) -> None:
        self._trace, self._propagate = _library()
        self._tracer = self._trace.get_tracer(_TRACER)

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        kind = self._trace.SpanKind.PRODUCER
        attributes = _attributes(record.topic, "send")
        with self._tracer.start_as_current_span(f"send {record.topic}", kind=kind, attributes=attributes):
            carried: dict[str, str] = {}
            self._propagate.inject(carried)
        kept = [(name, content) for name, content in record.headers if name not in carried]
        return record._replace(headers=[*kept, *((name, text.encode()) for name, text in carried.items())])


class ConsumerTracing(ConsumerInterceptor):
    """A span for every polled record, in the trace of its send."""

    def __init__(self) -> None:
        self._trace, _ = _library()
        self._tracer = self._trace.get_tracer(_TRACER)

    def on_consume(self, records: list[ConsumedRecord]) -> list[ConsumedRecord]:
        for record in records:
            place = {
                "messaging.destination.partition.id": str(record.partition),
                "messaging.kafka.offset": record.offset,
            }
            self._tracer.start_span(
                f"poll {record.topic}",
                context=context_of(record),
                kind=self._trace.SpanKind.CONSUMER,
                attributes={**_attributes(record.topic, "poll"), **place},
            ).end()
        return records


def context_of(record: ConsumedRecord) -> Any:
    """The context of the trace in which the record was sent, for `start_as_current_span(..., context=...)`."""
    _, propagate = _library()
    carried = {name: content.decode("utf-8", "replace") for name, content in record.headers if content is not None}
    return propagate.extract(carried)


def _attributes(topic: str, operation: str) -> dict[str, str | int]:
    return {
        "messaging.system": "kafka",
        "messaging.destination.name": topic,
        "messaging.operation.name": operation,
    }
