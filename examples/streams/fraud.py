"""Fraud detection: an alert when a card pays in two countries within ten minutes. A processor with its own store."""

from __future__ import annotations

from collections.abc import Sequence

from examples.streams.running import parse, run
from ottla.streams import (
    Consumed,
    Processor,
    ProcessorContext,
    Produced,
    Record,
    Serdes,
    Stores,
    StreamsBuilder,
    Topology,
)

__all__ = ["build", "main"]

WINDOW_MS = 10 * 60 * 1000


class TwoCountries(Processor):
    """Keeps the last payment of every card."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.last = context.get_state_store("last-payments")

    def process(self, record: Record) -> None:
        before = self.last.get(record.key)
        country = record.value["country"]
        if before is not None and before["country"] != country and record.timestamp - before["time"] <= WINDOW_MS:
            alert = {"card": record.key, "countries": [before["country"], country]}
            self.context.forward(record.with_value(alert))
        if before is None or record.timestamp >= before["time"]:
            self.last.put(record.key, {"country": country, "time": record.timestamp})


def build(source: str, target: str) -> Topology:
    text, json = Serdes.string(), Serdes.json()
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value("last-payments", text, json))
    payments = builder.stream(source, Consumed.with_(text, json)).filter(lambda card, _: card is not None)
    payments.process(TwoCountries, "last-payments").to(target, Produced.with_(text, json))
    return builder.build()


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse("Fraud: cards in two countries", arguments, input="payments", output="alerts")
    run(build(options.input, options.output), options)


if __name__ == "__main__":
    main()
