"""Top ten in two phases: sales are summed by product in every partition, then ranked in a topic with one partition."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from examples.streams.running import parse, run
from ottla.streams import (
    Consumed,
    Grouped,
    Materialized,
    Produced,
    Repartitioned,
    Serdes,
    StreamsBuilder,
    Topology,
)

__all__ = ["build", "main"]

COUNT = 10


def build(source: str, target: str) -> Topology:
    text, number, json = Serdes.string(), Serdes.integer(), Serdes.json()
    builder = StreamsBuilder()
    totals = (
        builder.stream(source, Consumed.with_(text, number))
        .group_by_key(Grouped.with_(text, number))
        .reduce(lambda total, amount: total + amount, Materialized.as_("totals"))
    )
    (
        totals.to_stream()
        .map(lambda product, total: ("all", [product, total]))
        .repartition(Repartitioned.as_("ranking").with_number_of_partitions(1).with_serdes(text, json))
        .group_by_key(Grouped.with_(text, json))
        .aggregate(list, rank, Materialized.as_("top").with_value_serde(json))
        .to_stream()
        .to(target, Produced.with_(text, json))
    )
    return builder.build()


def rank(_: str, sale: list[Any], best: list[list[Any]]) -> list[list[Any]]:
    """Sums only grow, so a product that fell out of the list comes back with its next sale."""
    product, total = sale
    others = [entry for entry in best if entry[0] != product]
    return sorted([*others, [product, total]], key=lambda entry: (-entry[1], entry[0]))[:COUNT]


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse("Top ten: the products that sell best", arguments, input="sales", output="top-ten")
    run(build(options.input, options.output), options)


if __name__ == "__main__":
    main()
