"""Metrics in OpenTelemetry's format, as PushTelemetry carries them (KIP-714).

This is the part of the Protobuf messages of OTLP (`MetricsData` and below) that Kafka's clients use: gauges and sums of
numbers, with attributes that are text. Unknown fields and other kinds of metrics are skipped. It is written by hand,
because the Protobuf library takes longer to import than a client takes to start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from struct import Struct
from typing import NamedTuple

__all__ = ["MalformedMetrics", "MetricPoint", "decode_metrics", "encode_metrics"]

_DELTA, _CUMULATIVE = 1, 2
# Types of Protobuf fields.
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_DOUBLE, _SFIXED64, _FIXED = Struct("<d"), Struct("<q"), Struct("<Q")
# Varints have at most 64 bits.
_VARINT_BITS_MAX = 63
# Decoding ends after this number of fields, because a small payload may contain millions of empty fields.
_FIELDS_MAX = 50_000

Attributes = tuple[tuple[str, str], ...]


class MalformedMetrics(ValueError):
    """The bytes are not a Protobuf message."""


class _TooManyFields(Exception):
    """The payload is too long to be decoded to its end."""


class MetricPoint(NamedTuple):
    name: str
    value: float
    attributes: Attributes = ()
    # False for a gauge.
    is_sum: bool = False
    # True if a sum counts since the previous point, and not since its start.
    is_delta: bool = False
    time_ns: int = 0
    # For sums.
    start_ns: int = 0


# Encoding.


def encode_metrics(points: Iterable[MetricPoint], resource: Mapping[str, str]) -> bytes:
    """A `MetricsData` message with one resource and one scope."""
    metrics = b"".join(_field(2, _metric(point)) for point in points)
    attributes = b"".join(_field(1, _attribute(name, value)) for name, value in resource.items())
    return _field(1, _field(1, attributes) + _field(2, metrics))


def _metric(point: MetricPoint) -> bytes:
    number = _key(3, _FIXED64) + _FIXED.pack(point.time_ns) + _key(4, _FIXED64) + _DOUBLE.pack(point.value)
    number += b"".join(_field(7, _attribute(name, value)) for name, value in point.attributes)
    if not point.is_sum:
        return _field(1, point.name.encode()) + _field(5, _field(1, number))
    number = _key(2, _FIXED64) + _FIXED.pack(point.start_ns) + number
    temporality = _key(2, _VARINT) + _varint(_DELTA if point.is_delta else _CUMULATIVE)
    monotonic = _key(3, _VARINT) + _varint(1)
    return _field(1, point.name.encode()) + _field(7, _field(1, number) + temporality + monotonic)


def _attribute(name: str, value: str) -> bytes:
    return _field(1, name.encode()) + _field(2, _field(1, value.encode()))


def _field(number: int, content: bytes) -> bytes:
    return _key(number, _BYTES) + _varint(len(content)) + content


def _key(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


# Decoding.


def decode_metrics(payload: memoryview | bytes, *, points_max: int) -> list[MetricPoint]:
    """The points of a `MetricsData` message, at most `points_max`. Raises MalformedMetrics."""
    points: list[MetricPoint] = []
    decoder = _Decoder()
    try:
        for metric in decoder.metrics(memoryview(payload)):
            for point in decoder.points(metric):
                if len(points) == points_max:
                    return points
                points.append(point)
    except _TooManyFields:
        return points
    return points


class _Decoder:
    """Decodes one payload, and counts its fields."""

    def __init__(self) -> None:
        self._fields_left = _FIELDS_MAX

    def metrics(self, payload: memoryview) -> Iterator[memoryview]:
        for resource in self._parts(payload, 1):
            for scope in self._parts(resource, 2):
                yield from self._parts(scope, 2)

    def points(self, metric: memoryview) -> Iterator[MetricPoint]:
        name = ""
        for number, value in self._fields(metric):
            if number == 1 and isinstance(value, memoryview):
                name = _text(value)
            elif number == 5 and isinstance(value, memoryview):
                for point in self._parts(value, 1):
                    yield from self._point(name, point, is_sum=False, is_delta=False)
            elif number == 7 and isinstance(value, memoryview):
                is_delta = any(field == 2 and kind == _DELTA for field, kind in self._fields(value))
                for point in self._parts(value, 1):
                    yield from self._point(name, point, is_sum=True, is_delta=is_delta)

    def _point(self, name: str, content: memoryview, *, is_sum: bool, is_delta: bool) -> Iterator[MetricPoint]:
        value: float | None = None
        times = {2: 0, 3: 0}
        attributes: list[tuple[str, str]] = []
        for number, part in self._fields(content):
            if isinstance(part, memoryview):
                if number == 7:
                    attributes.append(self._attribute_of(part))
            elif number == 4:
                (value,) = _DOUBLE.unpack(_FIXED.pack(part & 0xFFFF_FFFF_FFFF_FFFF))
            elif number == 6:
                (value,) = _SFIXED64.unpack(_FIXED.pack(part & 0xFFFF_FFFF_FFFF_FFFF))
            elif number in times:
                times[number] = part
        if value is not None:
            yield MetricPoint(name, float(value), tuple(attributes), is_sum, is_delta, times[3], times[2])

    def _attribute_of(self, content: memoryview) -> tuple[str, str]:
        name = value = ""
        for number, part in self._fields(content):
            if number == 1 and isinstance(part, memoryview):
                name = _text(part)
            elif number == 2 and isinstance(part, memoryview):
                for kind, inner in self._fields(part):
                    if kind == 1 and isinstance(inner, memoryview):
                        value = _text(inner)
                    elif kind == 3 and not isinstance(inner, memoryview):
                        value = str(inner)
        return name, value

    def _parts(self, content: memoryview, wanted: int) -> Iterator[memoryview]:
        """The nested messages in a field."""
        for number, value in self._fields(content):
            if number == wanted and isinstance(value, memoryview):
                yield value

    def _fields(self, content: memoryview) -> Iterator[tuple[int, memoryview | int]]:
        for field in _fields(content):
            self._fields_left -= 1
            if self._fields_left < 0:
                raise _TooManyFields
            yield field


def _text(content: memoryview) -> str:
    return bytes(content).decode("utf-8", "replace")


def _fields(content: memoryview) -> Iterator[tuple[int, memoryview | int]]:
    position, end = 0, len(content)
    while position < end:
        key, position = _read_varint(content, position)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, position = _read_varint(content, position)
            yield number, value
        elif kind in (_BYTES, _FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
            if kind == _BYTES:
                length, position = _read_varint(content, position)
            if length > end - position:
                raise MalformedMetrics(f"a field of {length} bytes ends behind its message")
            part = content[position : position + length]
            position += length
            yield number, (part if kind == _BYTES else int.from_bytes(part, "little"))
        else:
            raise MalformedMetrics(f"a field has the unknown type {kind}")


def _read_varint(content: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(content) and shift <= _VARINT_BITS_MAX:
        byte = content[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise MalformedMetrics("a number does not end")
