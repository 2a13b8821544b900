"""Log split: errors go to a topic of their own, everything else to another. One record in, one record out, no state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from examples.streams.running import parse, run
from ottla.streams import Branched, Consumed, Produced, Serde, Serdes, StreamsBuilder, Topology

__all__ = ["build", "main"]


def build(source: str, errors: str, others: str, *, serde: Serde | None = None) -> Topology:
    """`serde` writes the results: JSON by default, or for instance Avro with a registry (`ottla.serdes.avro`)."""
    text, written = Serdes.string(), serde or Serdes.json()
    builder = StreamsBuilder()
    events = builder.stream(source, Consumed.with_(text, Serdes.json())).filter(lambda _, event: event is not None)
    branches = events.map_values(tidy).split()
    branches.branch(
        lambda _, event: event["level"] == "ERROR",
        Branched.with_consumer(lambda stream: stream.to(errors, Produced.with_(text, written))),
    )
    branches.default_branch(Branched.with_consumer(lambda stream: stream.to(others, Produced.with_(text, written))))
    return builder.build()


def tidy(event: dict[str, Any]) -> dict[str, str]:
    """The fields that readers rely on."""
    return {"level": str(event.get("level", "INFO")).upper(), "message": str(event.get("message", ""))}


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse("Log split: errors and the rest", arguments, input="logs", errors="log-errors", others="log-others")
    run(build(options.input, options.errors, options.others), options)


if __name__ == "__main__":
    main()
