"""Streams applications under kills: topologies, their input, and the results of an undisturbed run.

The results of every topology do not depend on the order in which partitions are read, so an undisturbed run in the
test driver gives the expected output: every record once, and the records of a key in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from ottla.streams import (
    Consumed,
    Grouped,
    JoinWindows,
    Materialized,
    Produced,
    Serdes,
    SessionWindows,
    StreamJoined,
    StreamsBuilder,
    TimeWindows,
    Topology,
    TopologyTestDriver,
)

__all__ = ["INPUTS", "TOPOLOGIES", "Input", "build", "differences", "make_input"]

TEXT = Serdes.string()
_IN, _OUT = Consumed.with_(TEXT, TEXT), Produced.with_(TEXT, TEXT)
KEYS = 12
INPUTS = ("events", "left", "right", "orders", "customers")


@dataclass(frozen=True, slots=True)
class Input:
    topic: str
    key: str
    value: str
    timestamp: int


def _stateless(builder: StreamsBuilder) -> None:
    stream = builder.stream("events", _IN)
    stream.filter(lambda _, value: int(value) % 3 != 0).map_values(lambda value: f"<{value}>").to("stateless", _OUT)


def _windowed(builder: StreamsBuilder) -> None:
    counts = (
        builder.stream("events", _IN)
        .group_by(lambda key, _: f"w{key}", Grouped.with_(TEXT, TEXT))
        .windowed_by(TimeWindows.of_size_and_grace(10_000, 3_600_000))
        .count(Materialized.as_("counts"))
    )
    counts.to_stream(lambda key, _: f"{key.key}@{key.window.start}").map_values(str).to("windowed", _OUT)


def _session(builder: StreamsBuilder) -> None:
    counts = (
        builder.stream("events", _IN)
        .group_by_key(Grouped.with_(TEXT, TEXT))
        .windowed_by(SessionWindows.of_inactivity_gap_and_grace(2_000, 3_600_000))
        .count()
    )
    named = counts.to_stream(lambda key, _: key.key)
    named.map_values(lambda value: "-" if value is None else str(value)).to("session", _OUT)


def _join(builder: StreamsBuilder) -> None:
    left, right = builder.stream("left", _IN), builder.stream("right", _IN)
    windows = JoinWindows.of_time_difference_and_grace(4_000, 86_400_000)
    joined = left.join(
        right,
        lambda left_value, right_value: f"{left_value}+{right_value}",
        windows,
        StreamJoined.with_(TEXT, TEXT, TEXT),
    )
    joined.to("join", _OUT)


def _foreign_key(builder: StreamsBuilder) -> None:
    orders, customers = builder.table("orders", _IN), builder.table("customers", _IN)
    joined = orders.join(customers, lambda order: order.split(":")[0], lambda order, customer: f"{order}/{customer}")
    joined.to_stream().map_values(lambda value: "-" if value is None else value).to("foreign_key", _OUT)


TOPOLOGIES: dict[str, Callable[[StreamsBuilder], None]] = {
    "stateless": _stateless,
    "windowed": _windowed,
    "session": _session,
    "join": _join,
    "foreign_key": _foreign_key,
}


def build(kind: str) -> Topology:
    builder = StreamsBuilder()
    TOPOLOGIES[kind](builder)
    return builder.build({"default.key.serde": TEXT, "default.value.serde": TEXT})


def make_input(number: int, random: Random, begin_ms: int) -> Input:
    """Records of all topics in turn; timestamps only rise, and are recent enough for the topics' retention."""
    topic = INPUTS[number % len(INPUTS)]
    key = f"k{random.randrange(KEYS)}"
    value = str(number)
    if topic == "orders":
        key, value = f"order{random.randrange(3 * KEYS)}", f"c{random.randrange(KEYS)}:{number}"
    elif topic == "customers":
        key = f"c{random.randrange(KEYS)}"
    return Input(topic, key, value, begin_ms + 40 * number)


Rows = list[tuple[str, str | None]]


def undisturbed(kind: str, written: list[Input]) -> Rows:
    properties = {"default.key.serde": TEXT, "default.value.serde": TEXT}
    with TopologyTestDriver(build(kind), properties) as driver:
        read = set(build(kind).source_topics())
        for record in written:
            if record.topic in read:
                driver.pipe(record.topic, record.key.encode(), record.value.encode(), record.timestamp)
        return driver.create_output_topic(kind, TEXT, TEXT).read_key_values()


def differences(kind: str, written: list[Input], actual: Rows) -> str:
    """The differences from the output of an undisturbed run; empty if there are none."""
    wanted = undisturbed(kind, written)
    if kind == "foreign_key":
        # The order between the two tables is not defined; in the end every row has the last order and customer.
        return _describe(_last(wanted), _last(actual))
    if kind == "join":
        return _describe(Counter(wanted), Counter(actual))
    return _describe(_by_key(wanted), _by_key(actual))


def _last(rows: Rows) -> dict[str, str | None]:
    return {key: value for key, value in dict(rows).items() if value != "-"}


def _by_key(rows: Rows) -> dict[str, list[str | None]]:
    values_by_key: dict[str, list[str | None]] = {}
    for key, value in rows:
        values_by_key.setdefault(key, []).append(value)
    return values_by_key


def _describe(wanted: object, actual: object) -> str:
    if wanted == actual:
        return ""
    assert isinstance(wanted, dict)
    assert isinstance(actual, dict)
    wrong = [key for key in sorted({*wanted, *actual}, key=str) if wanted.get(key) != actual.get(key)]
    first = wrong[0]
    return f"{len(wrong)} of {len(wanted)} differ, first {first}: {wanted.get(first)} became {actual.get(first)}"
