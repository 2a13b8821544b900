"""Metrics in OpenTelemetry's format: our bytes, and those of other programs."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.wire.otlp import MalformedMetrics, MetricPoint, decode_metrics, encode_metrics

texts = st.text(max_size=20)
points = st.builds(
    MetricPoint,
    texts,
    st.floats(allow_nan=False),
    st.lists(st.tuples(texts, texts), max_size=3).map(tuple),
    is_sum=st.just(False),
    is_delta=st.just(False),
    time_ns=st.integers(0, 2**64 - 1),
    start_ns=st.just(0),
)
sums = points.map(lambda point: point._replace(is_sum=True, start_ns=7))


@given(st.lists(points | sums | sums.map(lambda point: point._replace(is_delta=True)), max_size=5))
def test_what_is_encoded_is_decoded(metrics: list[MetricPoint]) -> None:
    payload = encode_metrics(metrics, {"group_id": "g"})
    assert decode_metrics(payload, points_max=10) == metrics
    assert decode_metrics(payload, points_max=2) == metrics[:2]


@given(st.binary(max_size=60))
def test_other_bytes_are_refused_or_read(payload: bytes) -> None:
    with contextlib.suppress(MalformedMetrics):
        assert len(decode_metrics(payload, points_max=3)) <= 3


def test_the_bytes_are_those_of_protobuf() -> None:
    # MetricsData{ResourceMetrics{Resource{KeyValue}, ScopeMetrics{Metric{name, Gauge{NumberDataPoint}}}}}
    payload = encode_metrics([MetricPoint("a", 1.0, time_ns=2)], {"k": "v"})
    point = bytes.fromhex("19 0200000000000000 21 000000000000f03f")
    gauge = b"\x0a" + bytes([len(point)]) + point
    metric = b"\x0a\x01a" + b"\x2a" + bytes([len(gauge)]) + gauge
    scope = b"\x12" + bytes([len(metric)]) + metric
    resource = bytes.fromhex("0a 08 0a 01 6b 12 03 0a 01 76")
    inner = b"\x0a" + bytes([len(resource)]) + resource + b"\x12" + bytes([len(scope)]) + scope
    assert payload == b"\x0a" + bytes([len(inner)]) + inner


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"\x0a\x05ab", "ends behind its message"),
        (b"\x0b", "unknown type"),
        (b"\xff" * 11, "does not end"),
    ],
)
def test_malformed_bytes(payload: bytes, why: str) -> None:
    with pytest.raises(MalformedMetrics, match=why):
        decode_metrics(payload, points_max=1)


@pytest.mark.parametrize("field", [b"\x12\x00", b"\x1a\x00", b"\x20\x01"])
def test_a_payload_of_empty_fields_is_not_decoded_to_its_end(field: bytes) -> None:
    def message(number: int, content: bytes) -> bytes:
        size, length = len(content), bytearray()
        while size > 0x7F:
            length.append(size & 0x7F | 0x80)
            size >>= 7
        return bytes([number << 3 | 2]) + bytes([*length, size]) + content

    # The end is malformed, which decoding would find.
    payload = message(1, message(2, field * 60_000 + b"\x0b"))
    assert decode_metrics(payload, points_max=1) == []
