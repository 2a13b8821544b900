"""Late readings: sensors that were offline send old readings. An hour stays open for two more hours, then it is final.

Every update of an hour goes to one topic, the final average to another. A reading that comes later still is dropped and
counted.
"""

from __future__ import annotations

from collections.abc import Sequence

from examples.streams.running import parse, run
from ottla.streams import (
    BufferConfig,
    Consumed,
    Grouped,
    Materialized,
    Produced,
    Serdes,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
    Topology,
    Windowed,
)

__all__ = ["build", "main"]

HOUR_MS = 60 * 60 * 1000
GRACE_MS = 2 * HOUR_MS


def build(source: str, updates: str, finals: str) -> Topology:
    text, number, json = Serdes.string(), Serdes.double(), Serdes.json()
    builder = StreamsBuilder()
    hours = (
        builder.stream(source, Consumed.with_(text, number).with_timestamp_extractor(measured_at))
        .group_by_key(Grouped.with_(text, number))
        .windowed_by(TimeWindows.of_size_and_grace(HOUR_MS, GRACE_MS))
        .aggregate(
            lambda: [0, 0.0],
            lambda _, value, total: [total[0] + 1, total[1] + value],
            Materialized.as_("hours").with_key_serde(text).with_value_serde(json),
        )
    )
    output = Produced.with_(text, number)
    hours.to_stream(name_of).map_values(average).to(updates, output)
    final = hours.suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
    final.to_stream(name_of).map_values(average).to(finals, output)
    return builder.build()


def measured_at(record: object, _partition_time: int) -> int:
    """The time of the measurement is the timestamp of the record; another source may have it in the value."""
    return int(getattr(record, "timestamp", -1))


def name_of(key: Windowed, _: object) -> str:
    return f"{key.key}@{key.window.start // HOUR_MS}"


def average(total: list[float]) -> float:
    return total[1] / total[0]


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(
        "Late readings: averages by hour", arguments, input="sensors", updates="hour-updates", finals="hour-finals"
    )
    run(build(options.input, options.updates, options.finals), options)


if __name__ == "__main__":
    main()
