"""Stock statistics: lowest ask, number and average of trades by ticker, in windows of 5 s that advance by 1 s.

Trades are JSON: {"ticker": "ACME", "ask": 10.5, "size": 100}. The key of a result is the ticker and the window's start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from examples.streams.running import parse, run
from ottla.streams import Consumed, Grouped, Materialized, Produced, Serdes, StreamsBuilder, TimeWindows, Topology

__all__ = ["build", "main"]


def build(source: str, target: str) -> Topology:
    text, trades = Serdes.string(), Serdes.json()
    builder = StreamsBuilder()
    windows = TimeWindows.of_size_with_no_grace(5000).advance_by(1000)
    (
        builder.stream(source, Consumed.with_(text, trades))
        .group_by_key(Grouped.with_(text, trades))
        .windowed_by(windows)
        .aggregate(empty, add, Materialized.as_("trade-stats-store").with_value_serde(trades))
        .to_stream(lambda key, _: f"{key.key}@{key.window.start}")
        .map_values(summary)
        .to(target, Produced.with_(text, trades))
    )
    return builder.build()


def empty() -> dict[str, Any]:
    return {"trades": 0, "total": 0.0, "lowest": None}


def add(_: str, trade: dict[str, Any], stats: dict[str, Any]) -> dict[str, Any]:
    stats["trades"] += 1
    stats["total"] += trade["ask"]
    stats["lowest"] = trade["ask"] if stats["lowest"] is None else min(stats["lowest"], trade["ask"])
    return stats


def summary(stats: dict[str, Any]) -> dict[str, Any]:
    return {"trades": stats["trades"], "lowest": stats["lowest"], "average": stats["total"] / stats["trades"]}


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse("Stock stats: statistics of trades", arguments, input="trades", output="trade-stats")
    run(build(options.input, options.output), options)


if __name__ == "__main__":
    main()
