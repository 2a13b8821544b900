"""Random topologies for every operator, as steps of a case."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

__all__ = [
    "OPERATOR_CASES",
    "Step",
    "cogroup",
    "grouping",
    "maybe",
    "out",
    "rows",
    "stream",
    "table_out",
    "then",
    "window",
]

Step = dict[str, Any]


def stream(topic: str = "in", identity: str = "s") -> Step:
    return {"op": "stream", "id": identity, "topic": topic}


def then(operation: str, identity: str, source: str, **options: Any) -> Step:
    return {"op": operation, "id": identity, "in": source, **options}


def out(source: str, topic: str = "out") -> Step:
    return {"op": "to", "in": source, "topic": topic}


def table_out(source: str, topic: str = "out") -> list[Step]:
    return [
        then("t_to_stream", f"{source}.stream", source),
        then("text", f"{source}.text", f"{source}.stream"),
        out(f"{source}.text", topic),
    ]


def maybe(random: Random, **options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if random.random() < 0.4}


def stateless(operation: str) -> Callable[[Random], list[Step]]:
    def make(random: Random) -> list[Step]:
        names = maybe(random, name="my-name") if operation in ("filter", "map_values") else {}
        return [stream(), then(operation, "x", "s", **names), out("x")]

    return make


def split_and_merge(random: Random) -> list[Step]:
    return [
        stream(),
        then("split", "p", "s"),
        then("map_values", "m", "p-even"),
        then("merge", "x", "p-a", other="m"),
        out("x"),
        out("p-rest", "rest"),
    ]


def dynamic(random: Random) -> list[Step]:
    return [stream(), then("map_values", "x", "s"), then("to_dynamic", "y", "x")]


def process(random: Random) -> list[Step]:
    options = maybe(random, stream_time=random.randint(1, 30), wall_clock=random.randint(1, 900))
    return [
        {"op": "add_store", "id": "q", "store": "counts"},
        stream(),
        then("process", "x", "s", store="counts", **options),
        out("x"),
    ]


def repartitioned(random: Random) -> list[Step]:
    return [
        stream(),
        then("select_key", "k", "s"),
        then("repartition", "x", "k", **maybe(random, name="again")),
        out("x"),
    ]


def to_table(random: Random) -> list[Step]:
    first = [then("select_key", "k", "s")] if random.random() < 0.5 else [then("peek", "k", "s")]
    return [stream(), *first, then("to_table", "x", "k", **maybe(random, store="rows")), *table_out("x")]


def grouping(random: Random) -> list[Step]:
    if random.random() < 0.5:
        return [then("group_by_key", "g", "s")]
    return [then("group_by", "g", "s", **maybe(random, name="grouped"))]


def aggregate(operation: str) -> Callable[[Random], list[Step]]:
    def make(random: Random) -> list[Step]:
        return [
            stream(),
            *grouping(random),
            then(f"g_{operation}", "x", "g", **maybe(random, store="aggregates")),
            *table_out("x"),
        ]

    return make


def window(random: Random, kind: str) -> Step:
    size = random.randint(1, 30)
    options: dict[str, Any] = {"size": size, "grace": random.choice([0, 0, 5, 20, 100])}
    if kind == "time" and random.random() < 0.6:
        options["advance"] = random.randint(1, size)
    return then(f"g_{kind}", "w", "g", **options)


def windowed(kind: str, operation: str, *, closes: bool = False) -> Callable[[Random], list[Step]]:
    def make(random: Random) -> list[Step]:
        step, options = window(random, kind), maybe(random, store="aggregates")
        if closes:
            # Kafka Streams loses closed windows when time jumps by more than the retention.
            step["emit"] = "close"
            options["retention"] = 1_000_000
        return [
            stream(),
            *grouping(random),
            step,
            then(f"g_{operation}", "x", "w", **options),
            *table_out("x"),
        ]

    return make


def suppressed_windows(kind: str) -> Callable[[Random], list[Step]]:
    def make(random: Random) -> list[Step]:
        return [
            stream(),
            *grouping(random),
            window(random, kind),
            then("g_count", "c", "w", **maybe(random, store="aggregates")),
            then("t_suppress_closed", "x", "c"),
            *table_out("x"),
        ]

    return make


def suppressed_rows(random: Random) -> list[Step]:
    options = {"size": random.choice([0, 5, 30]), **maybe(random, records=random.randint(1, 3))}
    return [
        {"op": "table", "id": "t", "topic": "in", **maybe(random, store="rows")},
        then("t_suppress_time", "x", "t", **options),
        *table_out("x"),
    ]


def cogroup(random: Random) -> list[Step]:
    second = "group_by_key" if random.random() < 0.5 else "group_by"
    return [
        stream(),
        stream("other", "o"),
        then("group_by_key", "g", "s"),
        then(second, "h", "o"),
        then("g_cogroup", "c", "g", mark="."),
        then("g_cogroup", "d", "h", other="c", mark=":"),
        then("g_aggregate", "x", "d", **maybe(random, store="aggregates")),
        *table_out("x"),
    ]


def stream_join(kind: str) -> Callable[[Random], list[Step]]:
    def make(random: Random) -> list[Step]:
        options = {"size": random.randint(0, 20), "grace": random.choice([0, 0, 10, 50])}
        options |= maybe(random, before=random.randint(0, 20), after=random.randint(0, 20), store="joins")
        before = [then("select_key", "l", "s")] if random.random() < 0.2 else [then("peek", "l", "s")]
        return [stream(), stream("other", "o"), *before, then(f"j_{kind}", "x", "l", other="o", **options), out("x")]

    return make


def self_join(random: Random) -> list[Step]:
    options = {"size": random.randint(0, 20), "grace": random.choice([0, 10])}
    return [stream(), then("j_inner", "x", "s", other="s", **options), out("x")]


def table_lookup(kind: str) -> Callable[[Random], list[Step]]:
    def make(random: Random) -> list[Step]:
        before = [then("select_key", "l", "s")] if random.random() < 0.3 else [then("peek", "l", "s")]
        return [
            stream(),
            {"op": "table", "id": "t", "topic": "rows", **maybe(random, store="rows-store")},
            *before,
            then(f"j_{kind}", "x", "l", other="t", **maybe(random, name="joining")),
            out("x"),
        ]

    return make


def versioned_lookup(kind: str) -> Callable[[Random], list[Step]]:
    def make(random: Random) -> list[Step]:
        history = random.choice([10, 50, 1000])
        grace = {"grace": random.randint(0, history)} if random.random() < 0.6 else {}
        return [
            stream(),
            {"op": "table", "id": "t", "topic": "rows", "store": "rows-store", "versioned": history},
            then(f"j_{kind}", "x", "s", other="t", **grace),
            out("x"),
        ]

    return make


def global_lookup(kind: str) -> Callable[[Random], list[Step]]:
    def make(random: Random) -> list[Step]:
        return [
            stream(),
            {"op": "global_table", "id": "t", "topic": "rows"},
            then(f"j_{kind}", "x", "s", other="t"),
            out("x"),
        ]

    return make


def rows(random: Random, topic: str, identity: str) -> list[Step]:
    """A table, sometimes behind another operator."""
    steps = [{"op": "table", "id": f"{identity}0", "topic": topic, **maybe(random, store=f"{topic}-store")}]
    last = random.choice(["", "", "t_filter", "t_map_values"])
    if last:
        steps.append(then(last, identity, f"{identity}0", **maybe(random, store=f"{topic}-{last}")))
    else:
        steps[0]["id"] = identity
    return steps


def table_operator(operation: str) -> Callable[[Random], list[Step]]:
    def make(random: Random) -> list[Step]:
        return [
            *rows(random, "in", "t"),
            then(f"t_{operation}", "x", "t", **maybe(random, store="result")),
            *table_out("x"),
        ]

    return make


def table_join(operation: str) -> Callable[[Random], list[Step]]:
    def make(random: Random) -> list[Step]:
        return [
            *rows(random, "in", "t"),
            *rows(random, "other", "u"),
            then(f"t_{operation}", "x", "t", other="u", **maybe(random, store="result")),
            *table_out("x"),
        ]

    return make


def table_aggregate(operation: str) -> Callable[[Random], list[Step]]:
    def make(random: Random) -> list[Step]:
        return [
            *rows(random, "in", "t"),
            then("t_group_by", "g", "t"),
            then(f"g_{operation}", "x", "g", **maybe(random, store="result")),
            *table_out("x"),
        ]

    return make


def foreign_key(operation: str) -> Callable[[Random], list[Step]]:
    def make(random: Random) -> list[Step]:
        return [
            *rows(random, "in", "t"),
            *rows(random, "other", "u"),
            then(f"t_{operation}", "x", "t", other="u"),
            *table_out("x"),
        ]

    return make


# Operators with options that the cases above do not use.


def process_values(random: Random) -> list[Step]:
    options = {"entries": random.randint(1, 3)} if random.random() < 0.5 else {}
    return [
        {"op": "add_store", "id": "q", "store": "counts", **options},
        stream(),
        then("process_values", "x", "s", store="counts"),
        out("x"),
    ]


def least_recently_used(random: Random) -> list[Step]:
    return [
        {"op": "add_store", "id": "q", "store": "counts", "entries": random.randint(1, 4)},
        stream(),
        then("process", "x", "s", store="counts"),
        out("x"),
    ]


def suppressed_bytes(random: Random) -> list[Step]:
    options = {"size": random.choice([5, 30, 200]), "bytes": random.choice([60, 90, 150, 300])}
    return [
        {"op": "table", "id": "t", "topic": "in", **maybe(random, store="rows")},
        then("t_suppress_time", "x", "t", **options),
        *table_out("x"),
    ]


def suppressed_strictly(random: Random) -> list[Step]:
    """The buffer may get full, which stops Kafka Streams and Ottla alike."""
    return [
        stream(),
        then("group_by_key", "g", "s"),
        window(random, "time"),
        then("g_count", "c", "w"),
        then("t_suppress_closed", "x", "c", records=random.randint(2, 12)),
        *table_out("x"),
    ]


def windowed_cogroup(kind: str) -> Callable[[Random], list[Step]]:
    def make(random: Random) -> list[Step]:
        steps = cogroup(random)
        place = next(index for index, step in enumerate(steps) if step["op"] == "g_aggregate")
        windows = {**window(random, kind), "in": "d"}
        return [*steps[:place], windows, {**steps[place], "in": "w"}, *steps[place + 1 :]]

    return make


def merged_topics(random: Random) -> list[Step]:
    return [
        stream(),
        stream("other", "o"),
        then("map_values", "m", "s"),
        then("merge", "x", "m", other="o"),
        out("x"),
    ]


def versioned_rows(random: Random, topic: str, identity: str) -> Step:
    history = random.choice([5, 50, 1000])
    return {"op": "table", "id": identity, "topic": topic, "store": f"{topic}-store", "versioned": history}


def versioned_operator(operation: str) -> Callable[[Random], list[Step]]:
    def make(random: Random) -> list[Step]:
        return [versioned_rows(random, "in", "t"), then(f"t_{operation}", "x", "t"), *table_out("x")]

    return make


def versioned_join(operation: str) -> Callable[[Random], list[Step]]:
    def make(random: Random) -> list[Step]:
        other = [versioned_rows(random, "other", "u")] if random.random() < 0.6 else rows(random, "other", "u")
        joined = then(f"t_{operation}", "x", "t", other="u")
        return [versioned_rows(random, "in", "t"), *other, joined, *table_out("x")]

    return make


def versioned_aggregate(random: Random) -> list[Step]:
    return [
        versioned_rows(random, "in", "t"),
        then("t_group_by", "g", "t"),
        then(f"g_{random.choice(['count', 'reduce', 'aggregate'])}", "x", "g"),
        *table_out("x"),
    ]


OPERATOR_CASES: dict[str, Callable[[Random], list[Step]]] = {
    **{
        name: stateless(name)
        for name in (
            "filter",
            "filter_not",
            "map",
            "map_values",
            "map_values_key",
            "flat_map",
            "flat_map_values",
            "select_key",
            "peek",
        )
    },
    "split_and_merge": split_and_merge,
    "to_dynamic": dynamic,
    "process": process,
    "repartition": repartitioned,
    "to_table": to_table,
    **{name: aggregate(name) for name in ("count", "reduce", "aggregate")},
    **{
        f"{kind}_{name}": windowed(kind, name)
        for kind in ("time", "sliding", "session")
        for name in ("count", "reduce", "aggregate")
    },
    **{f"{kind}_on_close": windowed(kind, "count", closes=True) for kind in ("time", "sliding", "session")},
    **{f"suppress_{kind}": suppressed_windows(kind) for kind in ("time", "sliding", "session")},
    "suppress_rows": suppressed_rows,
    "cogroup": cogroup,
    **{f"stream_join_{kind}": stream_join(kind) for kind in ("inner", "left", "outer")},
    "self_join": self_join,
    **{f"stream_table_{kind}": table_lookup(kind) for kind in ("inner", "left")},
    **{f"stream_versioned_{kind}": versioned_lookup(kind) for kind in ("inner", "left")},
    **{f"stream_global_{kind}": global_lookup(kind) for kind in ("inner", "left")},
    **{f"table_{name}": table_operator(name) for name in ("filter", "filter_not", "map_values")},
    **{f"table_{name}": table_join(name) for name in ("join", "left_join", "outer_join")},
    **{f"table_{name}": table_aggregate(name) for name in ("count", "reduce", "aggregate")},
    **{f"table_{name}": foreign_key(name) for name in ("fk_join", "fk_left_join")},
    "process_values": process_values,
    "least_recently_used": least_recently_used,
    "suppress_bytes": suppressed_bytes,
    "suppress_strictly": suppressed_strictly,
    **{f"cogroup_{kind}": windowed_cogroup(kind) for kind in ("time", "sliding", "session")},
    "merge": merged_topics,
    **{f"versioned_{name}": versioned_operator(name) for name in ("filter", "filter_not", "map_values")},
    **{
        f"versioned_{name}": versioned_join(name)
        for name in ("join", "left_join", "outer_join", "fk_join", "fk_left_join")
    },
    "versioned_aggregate": versioned_aggregate,
}
