"""Runs one topology for `streams` until it is killed: `python -m bench.streams_run TOPOLOGY SETTINGS`.

`java/streams/BenchedStreams.java` has the same topologies.
"""

from __future__ import annotations

import json
import operator
import signal
import sys

from ottla.streams import (
    Application,
    Consumed,
    Grouped,
    Joined,
    JoinWindows,
    KStream,
    Materialized,
    Produced,
    Serdes,
    SessionWindows,
    StreamJoined,
    StreamsBuilder,
    TimeWindows,
    Topology,
    Windowed,
)

__all__ = ["TOPOLOGIES", "topology_of"]

TEXT, NUMBER = Serdes.string(), Serdes.long()


def words(builder: StreamsBuilder) -> None:
    split = texts(builder, "lines").flat_map_values(lambda line: line.split(" "))
    counts = split.group_by(lambda _, word: word, Grouped.with_(TEXT, TEXT)).count(Materialized.with_(TEXT, NUMBER))
    counts.to_stream().map_values(str).to("out", Produced.with_(TEXT, TEXT))


def windows(builder: StreamsBuilder) -> None:
    trades = builder.stream("trades", Consumed.with_(TEXT, NUMBER)).group_by_key(Grouped.with_(TEXT, NUMBER))
    sums = trades.windowed_by(TimeWindows.of_size_and_grace(5000, 1000)).reduce(
        operator.add, Materialized.with_(TEXT, NUMBER)
    )
    sums.to_stream(start_of).to("out", Produced.with_(TEXT, NUMBER))


def lookup(builder: StreamsBuilder) -> None:
    users = builder.table("users", Consumed.with_(TEXT, TEXT))
    joined = texts(builder, "clicks").join(users, lambda click, user: f"{click},{user}", Joined.with_(TEXT, TEXT, TEXT))
    joined.to("out", Produced.with_(TEXT, TEXT))


def pairs(builder: StreamsBuilder) -> None:
    joined = texts(builder, "orders").join(
        texts(builder, "payments"),
        lambda order, payment: f"{order},{payment}",
        JoinWindows.of_time_difference_and_grace(50, 1000),
        StreamJoined.with_(TEXT, TEXT, TEXT),
    )
    joined.to("out", Produced.with_(TEXT, TEXT))


def sessions(builder: StreamsBuilder) -> None:
    visits = texts(builder, "visits").group_by_key(Grouped.with_(TEXT, TEXT))
    counts = visits.windowed_by(SessionWindows.of_inactivity_gap_and_grace(200, 1000)).count(
        Materialized.with_(TEXT, NUMBER)
    )
    counts.to_stream(start_of).to("out", Produced.with_(TEXT, NUMBER))


def function(builder: StreamsBuilder) -> None:
    mapped = texts(builder, "events").map_values(lambda value: f"{value.upper()}:{len(value)}")
    mapped.filter(lambda _, value: not value.endswith("0")).to("out", Produced.with_(TEXT, TEXT))


def latest(builder: StreamsBuilder) -> None:
    events = texts(builder, "events").group_by_key(Grouped.with_(TEXT, TEXT))
    events.reduce(lambda _, value: value, Materialized.with_(TEXT, TEXT)).to_stream().to(
        "out", Produced.with_(TEXT, TEXT)
    )


def texts(builder: StreamsBuilder, topic: str) -> KStream:
    return builder.stream(topic, Consumed.with_(TEXT, TEXT))


def start_of(key: Windowed, _: object) -> str:
    return f"{key.key}@{key.window.start}"


TOPOLOGIES = {
    "words": words,
    "windows": windows,
    "lookup": lookup,
    "pairs": pairs,
    "sessions": sessions,
    "function": function,
    "latest": latest,
}


def topology_of(name: str) -> Topology:
    builder = StreamsBuilder()
    TOPOLOGIES[name](builder)
    return builder.build()


def main(name: str, settings: str) -> None:
    application = Application(topology_of(name), json.loads(settings), runs_on="threads")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    try:
        application.start()
        application.wait()
    finally:
        application.close(10)


if __name__ == "__main__":
    main(*sys.argv[1:])
