"""Reprocess: a corrected topology runs beside the old one, from the first record on, into a topic of its own.

The version is part of the application id, so the new version has its own offsets and state. When its results have
caught up, readers move to its topic, and the old version is stopped.
"""

from __future__ import annotations

from collections.abc import Sequence

from examples.streams.running import parse, run
from ottla.streams import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder, Topology

__all__ = ["build", "main"]


def build(source: str, target: str, version: int) -> Topology:
    """Amounts by account. Version 1 counted cancelled payments as well."""
    text, json, number = Serdes.string(), Serdes.json(), Serdes.integer()
    builder = StreamsBuilder()
    payments = builder.stream(source, Consumed.with_(text, json))
    if version >= 2:
        payments = payments.filter_not(lambda _, payment: payment.get("cancelled", False))
    (
        payments.map_values(lambda payment: int(payment["amount"]))
        .group_by_key(Grouped.with_(text, number))
        .reduce(lambda total, amount: total + amount, Materialized.as_("totals"))
        .to_stream()
        .to(f"{target}-v{version}", Produced.with_(text, number))
    )
    return builder.build()


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse("Reprocess: totals of accounts", arguments, input="payments", output="totals", version="2")
    options.application_id = f"{options.application_id}-v{options.version}"
    run(build(options.input, options.output, int(options.version)), options)


if __name__ == "__main__":
    main()
