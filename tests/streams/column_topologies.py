"""Topologies that have a column form, for `test_columns`."""

from __future__ import annotations

import operator

import pyarrow.compute as pc

from ottla.streams import (
    Branched,
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
    Windowed,
    columns,
)

TEXT, LONG, BYTES, FLOAT, JSON = Serdes.string(), Serdes.long(), Serdes.bytes_(), Serdes.float_(), Serdes.json()

longer = columns(lambda _, value: pc.greater(pc.utf8_length(value), 2))
upper = columns(pc.utf8_upper)


def text_stream(builder: StreamsBuilder, topic: str = "in") -> KStream:
    return builder.stream(topic, Consumed.with_(TEXT, TEXT))


def counted_text(builder: StreamsBuilder) -> None:
    stream = text_stream(builder).group_by_key(Grouped.with_(TEXT, TEXT))
    stream.count(Materialized.as_("counts")).to_stream().map_values(str).to("out", Produced.with_(TEXT, TEXT))


def counted_numbers(builder: StreamsBuilder) -> None:
    counts = builder.stream("in", Consumed.with_(BYTES, TEXT)).filter(longer).group_by_key().count()
    counts.to_stream().to("out", Produced.with_(BYTES, LONG))


def by_columns(builder: StreamsBuilder) -> None:
    text_stream(builder).filter_not(longer).map_values(upper).to("out", Produced.with_(TEXT, TEXT))


def by_functions(builder: StreamsBuilder) -> None:
    stream = text_stream(builder).filter(lambda _, value: value is not None).map_values(lambda value: value + "!")
    stream = stream.map(lambda key, value: (value, key)).map_values(lambda key, value: f"{key}{value}")
    stream.peek(lambda *_: None).flat_map(lambda key, value: [(value, key)] * (len(value) % 3)).to(
        "out", Produced.with_(TEXT, TEXT)
    )


def words(builder: StreamsBuilder) -> None:
    split = text_stream(builder).flat_map_values(lambda line: list(line or ""))
    counts = split.group_by(lambda _, word: word, Grouped.with_(TEXT, TEXT)).count(Materialized.with_(TEXT, LONG))
    counts.to_stream().map_values(str).to("out", Produced.with_(TEXT, TEXT))


def two_sinks(builder: StreamsBuilder) -> None:
    stream = text_stream(builder)
    stream.to("out", Produced.with_(TEXT, TEXT))
    stream.select_key(lambda _, value: value).to("more", Produced.with_(TEXT, TEXT))


def branches(builder: StreamsBuilder) -> None:
    branched = text_stream(builder).split("by-").branch(lambda key, _: key == "a", Branched.as_("a"))
    by_name = branched.branch(lambda _, value: value == "bb", Branched.as_("b")).default_branch(Branched.as_("rest"))
    for name, stream in by_name.items():
        stream.map_values(lambda value, name=name: f"{name}{value}").to(f"out-{name}", Produced.with_(TEXT, TEXT))


def reduced(builder: StreamsBuilder) -> None:
    rows = text_stream(builder).group_by_key(Grouped.with_(TEXT, TEXT)).reduce(max, Materialized.with_(TEXT, TEXT))
    rows.to_stream().to("out", Produced.with_(TEXT, TEXT))


def listed(builder: StreamsBuilder) -> None:
    """The aggregate is changed in place, and sometimes deleted."""

    def add(key: str, value: str, collected: list[str]) -> list[str] | None:
        collected.append(key + value)
        return None if len(collected) == 3 else collected

    rows = (
        text_stream(builder)
        .group_by_key(Grouped.with_(TEXT, TEXT))
        .aggregate(list, add, Materialized.with_(TEXT, JSON))
    )
    rows.to_stream().to("out", Produced.with_(TEXT, JSON))


def rounded(builder: StreamsBuilder) -> None:
    """A float loses digits in four bytes."""
    stream = text_stream(builder).group_by_key(Grouped.with_(TEXT, TEXT))
    rows = stream.aggregate(float, lambda _, value, total: total + len(value) / 3, Materialized.with_(TEXT, FLOAT))
    rows.to_stream().to("out", Produced.with_(TEXT, Serdes.double()))


def summed_windows(builder: StreamsBuilder) -> None:
    stream = builder.stream("in", Consumed.with_(TEXT, LONG)).group_by_key(Grouped.with_(TEXT, LONG))
    sums = stream.windowed_by(TimeWindows.of_size_and_grace(30, 10)).reduce(
        lambda total, value: None if value is None or total + value > 8 else total + value,
        Materialized.with_(TEXT, LONG),
    )
    sums.to_stream().to("out", Produced.with_(None, LONG))


def total_windows(builder: StreamsBuilder) -> None:
    """Sums that need no loop."""
    stream = builder.stream("in", Consumed.with_(TEXT, LONG)).group_by_key(Grouped.with_(TEXT, LONG))
    windows = stream.windowed_by(TimeWindows.of_size_and_grace(30, 10).advance_by(20))
    sums = windows.reduce(operator.add, Materialized.with_(TEXT, LONG))
    sums.to_stream(start_of).to("out", Produced.with_(TEXT, LONG))


def hopping_counts(builder: StreamsBuilder) -> None:
    stream = text_stream(builder).group_by_key(Grouped.with_(TEXT, TEXT))
    counts = stream.windowed_by(TimeWindows.of_size_and_grace(30, 5).advance_by(7)).count()
    counts.to_stream(start_of).map_values(str).to("out", Produced.with_(TEXT, TEXT))


def hopping_lists(builder: StreamsBuilder) -> None:
    stream = text_stream(builder).group_by_key(Grouped.with_(TEXT, TEXT))
    windows = stream.windowed_by(TimeWindows.of_size_with_no_grace(20).advance_by(9))
    rows = windows.aggregate(list, lambda _, value, collected: [*collected, value], Materialized.with_(TEXT, JSON))
    rows.to_stream(start_of).to("out", Produced.with_(TEXT, JSON))


def session_counts(builder: StreamsBuilder) -> None:
    stream = text_stream(builder).group_by_key(Grouped.with_(TEXT, TEXT))
    counts = stream.windowed_by(SessionWindows.of_inactivity_gap_and_grace(9, 20)).count()
    counts.to_stream().to("out")


def session_texts(builder: StreamsBuilder) -> None:
    stream = text_stream(builder).group_by_key(Grouped.with_(TEXT, TEXT))
    windows = stream.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(6))
    rows = windows.aggregate(
        str,
        lambda _, value, joined_text: f"{joined_text}{value}",
        lambda _, earlier, later: earlier + later,
        Materialized.with_(TEXT, TEXT),
    )
    rows.to_stream(start_of).to("out", Produced.with_(TEXT, TEXT))


def looked_up(builder: StreamsBuilder) -> None:
    table = builder.table("rows", Consumed.with_(TEXT, TEXT))
    text_stream(builder).join(table, lambda value, row: f"{value}+{row}", Joined.with_(TEXT, TEXT, TEXT)).to(
        "out", Produced.with_(TEXT, TEXT)
    )


def looked_up_through_a_view(builder: StreamsBuilder) -> None:
    table = builder.table("rows", Consumed.with_(TEXT, TEXT), Materialized.as_("kept"))
    text_stream(builder).left_join(table, lambda key, value, row: f"{key}{value}+{row}").to(
        "out", Produced.with_(TEXT, TEXT)
    )


def merged(builder: StreamsBuilder) -> None:
    merged_stream = text_stream(builder).map_values(upper).merge(text_stream(builder, "rows"))
    merged_stream.group_by_key(Grouped.with_(TEXT, TEXT)).count(Materialized.as_("counts")).to_stream().to("out")


def paired(builder: StreamsBuilder) -> None:
    left = text_stream(builder).filter(lambda _, value: value != "ccc")
    left.join(
        text_stream(builder, "rows"),
        lambda key, value, row: f"{key}:{value}+{row}",
        JoinWindows.of_time_difference_and_grace(12, 5).before(4),
        StreamJoined.with_(TEXT, TEXT, TEXT),
    ).map_values(lambda value: value + ".").to("out", Produced.with_(TEXT, TEXT))


def start_of(key: Windowed, _: object) -> str:
    return f"{key.key}@{key.window.start}"


CHAINS = [
    counted_text,
    counted_numbers,
    by_columns,
    by_functions,
    words,
    two_sinks,
    branches,
    reduced,
    listed,
    rounded,
    summed_windows,
    total_windows,
    hopping_counts,
    hopping_lists,
    session_counts,
    session_texts,
    looked_up,
    looked_up_through_a_view,
    merged,
    paired,
]


NUMBERED = (summed_windows, total_windows)
