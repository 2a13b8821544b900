"""The topologies of the simulated applications. Their input is the records of all other clients: `producer/number`."""

from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

from ottla.streams import JoinWindows, KStream, Produced, Serdes, StreamsBuilder, Topology
from ottla.streams.dsl.options import Grouped, Materialized

__all__ = ["OUTPUT", "SOURCE", "TOPOLOGIES"]

SOURCE = "t"
OUTPUT = "streams-output"

_DAY_MS = 24 * 60 * 60 * 1000
# The row of a key has expired for about half of all records.
_TIME_TO_LIVE_MS = 400
_EXPIRING_KEYS = 40


def _producer(value: bytes) -> bytes:
    return value.split(b"/")[0]


def _number(value: bytes) -> bytes:
    return value.partition(b"/")[2]


def _source(builder: StreamsBuilder) -> KStream:
    """The values without the padding that producers add."""
    stream = builder.stream(SOURCE).filter(lambda _, value: value is not None)
    return stream.map_values(lambda value: value.rstrip(b"\0"))


def _is_left(value: bytes) -> bool:
    return sum(_producer(value)) % 2 == 0


def stateless() -> Topology:
    builder = StreamsBuilder()
    _source(builder).map(lambda _, value: (_producer(value), value.upper())).to(OUTPUT)
    return builder.build()


def counting() -> Topology:
    builder = StreamsBuilder()
    counts = (
        _source(builder)
        .group_by(lambda _, value: _producer(value), Grouped.as_("by-producer"))
        .count(Materialized.as_("counts"))
    )
    counts.to_stream().to(OUTPUT, Produced.with_(None, Serdes.long()))
    return builder.build()


def joining() -> Topology:
    """Records of different producers with the same number. All of them are within the window, whatever their order."""
    builder = StreamsBuilder()
    stream = _source(builder)
    left = stream.filter(lambda _, value: _is_left(value)).select_key(lambda _, value: _number(value))
    right = stream.filter(lambda _, value: not _is_left(value)).select_key(lambda _, value: _number(value))
    window = JoinWindows.of_time_difference_with_no_grace(_DAY_MS)
    left.join(right, lambda left_value, right_value: left_value + b"+" + right_value, window).to(OUTPUT)
    return builder.build()


def expiring() -> Topology:
    """Counts whose rows are forgotten after a pause: whether a record is the first one again depends on stream time."""
    builder = StreamsBuilder()
    counts = (
        _source(builder)
        .group_by(lambda _, value: b"%d" % (crc32(_number(value)) % _EXPIRING_KEYS), Grouped.as_("by-number"))
        .count(Materialized.as_("living").with_time_to_live(_TIME_TO_LIVE_MS))
    )
    counts.to_stream().to(OUTPUT, Produced.with_(None, Serdes.long()))
    return builder.build()


TOPOLOGIES: dict[str, Callable[[], Topology]] = {
    "stateless": stateless,
    "counting": counting,
    "joining": joining,
    "expiring": expiring,
}
