"""Lookup: each record is enriched from a service outside of Kafka. Answers are kept in a store for some minutes.

An external lookup adds its latency and its failures to every record. Where the data can be had as a topic, join a table
instead (`clickstream`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from examples.streams.running import parse, run
from ottla.streams import (
    Consumed,
    FixedKeyProcessor,
    ProcessorContext,
    Produced,
    Record,
    Serdes,
    Stores,
    StreamsBuilder,
    Topology,
)

__all__ = ["build", "main"]

FRESH_MS = 5 * 60 * 1000

Ask = Callable[[str], Any]


class Enrich(FixedKeyProcessor):
    """Asks the service at most once in five minutes for every key."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self._answers = context.get_state_store("answers")

    def process(self, record: Record) -> None:
        answer = self._answers.get(record.key)
        now = self.context.current_system_time_ms()
        if answer is None or now - answer["asked"] > FRESH_MS:
            answer = {"asked": now, "answer": self._ask(record.key)}
            self._answers.put(record.key, answer)
        self.context.forward(record.with_value({"value": record.value, "owner": answer["answer"]}))


def build(source: str, target: str, ask: Ask) -> Topology:
    text, json = Serdes.string(), Serdes.json()
    builder = StreamsBuilder()
    builder.add_state_store(Stores.key_value("answers", text, json))
    readings = builder.stream(source, Consumed.with_(text, json)).filter(lambda device, _: device is not None)
    readings.process_values(lambda: Enrich(ask), "answers").to(target, Produced.with_(text, json))
    return builder.build()


def owner_of(device: str) -> str:
    """Stands for a call of a service."""
    return f"team-{sum(device.encode()) % 3}"


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse("Lookup: owners of devices", arguments, input="readings", output="owned-readings")
    run(build(options.input, options.output, owner_of), options)


if __name__ == "__main__":
    main()
