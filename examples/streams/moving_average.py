"""Moving average: the mean of a sensor's values of the last ten seconds, with every value. Sliding windows."""

from __future__ import annotations

from collections.abc import Sequence

from examples.streams.running import parse, run
from ottla.streams import (
    Consumed,
    Grouped,
    Materialized,
    Produced,
    Serdes,
    SlidingWindows,
    StreamsBuilder,
    Topology,
)

__all__ = ["build", "main"]


def build(source: str, target: str) -> Topology:
    text, number, json = Serdes.string(), Serdes.double(), Serdes.json()
    builder = StreamsBuilder()
    (
        builder.stream(source, Consumed.with_(text, number))
        .group_by_key(Grouped.with_(text, number))
        .windowed_by(SlidingWindows.of_time_difference_and_grace(10_000, 5_000))
        .aggregate(lambda: [0, 0.0], add, Materialized.as_("sums").with_value_serde(json))
        .to_stream(lambda key, _: f"{key.key}@{key.window.end}")
        .map_values(lambda sums: sums[1] / sums[0])
        .to(target, Produced.with_(text, number))
    )
    return builder.build()


def add(_: str, value: float, sums: list[float]) -> list[float]:
    return [sums[0] + 1, sums[1] + value]


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse("Moving average: of sensors", arguments, input="readings", output="averages")
    run(build(options.input, options.output), options)


if __name__ == "__main__":
    main()
