"""Random cases for pairs of operators in a chain: the output of one is the input of the other."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.streams.operators import Step, cogroup, grouping, maybe, out, rows, stream, table_out, then, window

__all__ = ["CHAINS"]

JOINS = ("inner", "left", "outer")
LOOKUPS = ("inner", "left")
TABLE_JOINS = ("join", "left_join", "outer_join")


def texts_of(source: str) -> list[Step]:
    """The changes of a table as a stream of texts, with the identity `texts`."""
    return [then("t_to_stream", "changes", source), then("text", "texts", "changes")]


def window_kind(random: Random) -> str:
    return random.choice(["time", "sliding", "session"])


def windowed_count(random: Random, source: str = "s") -> list[Step]:
    group = {**random.choice(grouping(random)), "in": source}
    return [group, window(random, window_kind(random)), then("g_count", "c", "w")]


def windows_then_aggregate(random: Random) -> list[Step]:
    return [
        stream(),
        *windowed_count(random),
        *texts_of("c"),
        then("group_by", "h", "texts"),
        then(f"g_{random.choice(['count', 'reduce'])}", "x", "h"),
        *table_out("x"),
    ]


def closed_windows_then_aggregate(random: Random) -> list[Step]:
    return [
        stream(),
        *windowed_count(random),
        then("t_suppress_closed", "f", "c"),
        *texts_of("f"),
        then("group_by", "h", "texts"),
        then("g_reduce", "x", "h"),
        *table_out("x"),
    ]


def windows_then_stream_join(random: Random) -> list[Step]:
    return [
        stream(),
        stream("other", "o"),
        *windowed_count(random),
        *texts_of("c"),
        then("select_key", "k", "texts"),
        then(f"j_{random.choice(JOINS)}", "x", "k", other="o", size=10, grace=20),
        out("x"),
    ]


def stream_join_then_windows(random: Random) -> list[Step]:
    kind = random.choice(JOINS)
    return [
        stream(),
        stream("other", "o"),
        then(f"j_{kind}", "j", "s", other="o", size=random.randint(0, 20), grace=random.choice([0, 30])),
        *windowed_count(random, "j"),
        *table_out("c"),
    ]


def lookup_then_windows(random: Random) -> list[Step]:
    return [
        stream(),
        {"op": "table", "id": "t", "topic": "rows"},
        then(f"j_{random.choice(LOOKUPS)}", "j", "s", other="t"),
        *windowed_count(random, "j"),
        *table_out("c"),
    ]


def global_lookup_then_aggregate(random: Random) -> list[Step]:
    return [
        stream(),
        {"op": "global_table", "id": "t", "topic": "rows"},
        then(f"j_{random.choice(LOOKUPS)}", "j", "s", other="t"),
        then("group_by", "g", "j"),
        then("g_aggregate", "x", "g"),
        *table_out("x"),
    ]


def stream_join_then_lookup(random: Random) -> list[Step]:
    return [
        stream(),
        stream("other", "o"),
        {"op": "table", "id": "t", "topic": "rows"},
        then(f"j_{random.choice(JOINS)}", "j", "s", other="o", size=random.randint(0, 20), grace=5),
        then(f"j_{random.choice(LOOKUPS)}", "x", "j", other="t"),
        out("x"),
    ]


def aggregate_then_table_join(random: Random) -> list[Step]:
    kind = random.choice(TABLE_JOINS)
    return [
        stream(),
        *rows(random, "other", "u"),
        *grouping(random),
        then(f"g_{random.choice(['count', 'reduce', 'aggregate'])}", "c", "g"),
        then(f"t_{kind}", "x", "c", other="u"),
        *table_out("x"),
    ]


def aggregates_joined(random: Random) -> list[Step]:
    return [
        stream(),
        stream("other", "o"),
        then("group_by_key", "g", "s"),
        then("g_count", "c", "g"),
        then("group_by_key", "h", "o"),
        then("g_reduce", "d", "h"),
        then(f"t_{random.choice(TABLE_JOINS)}", "x", "c", other="d"),
        *table_out("x"),
    ]


def table_join_then_aggregate(random: Random) -> list[Step]:
    return [
        *rows(random, "in", "t"),
        *rows(random, "other", "u"),
        then(f"t_{random.choice(TABLE_JOINS)}", "j", "t", other="u"),
        then("t_group_by", "g", "j"),
        then(f"g_{random.choice(['count', 'reduce', 'aggregate'])}", "x", "g"),
        *table_out("x"),
    ]


def table_join_then_lookup(random: Random) -> list[Step]:
    return [
        stream("clicks", "s"),
        *rows(random, "in", "t"),
        *rows(random, "other", "u"),
        then(f"t_{random.choice(TABLE_JOINS)}", "j", "t", other="u", **maybe(random, store="js")),
        then(f"j_{random.choice(LOOKUPS)}", "x", "s", other="j"),
        out("x"),
    ]


def table_aggregate_then_filter(random: Random) -> list[Step]:
    return [
        *rows(random, "in", "t"),
        then("t_group_by", "g", "t"),
        then("g_reduce", "r", "g"),
        then(f"t_{random.choice(['filter', 'filter_not', 'map_values'])}", "x", "r", **maybe(random, store="result")),
        *table_out("x"),
    ]


def aggregate_then_suppress(random: Random) -> list[Step]:
    return [
        stream(),
        *grouping(random),
        then("g_reduce", "r", "g"),
        then("t_suppress_time", "x", "r", size=random.choice([0, 10, 50]), **maybe(random, records=2)),
        *table_out("x"),
    ]


def suppress_then_table_join(random: Random) -> list[Step]:
    return [
        {"op": "table", "id": "t", "topic": "in", **maybe(random, store="rows")},
        *rows(random, "other", "u"),
        then("t_suppress_time", "w", "t", size=random.choice([5, 30])),
        then(f"t_{random.choice(['join', 'left_join'])}", "x", "w", other="u"),
        *table_out("x"),
    ]


def table_join_then_suppress(random: Random) -> list[Step]:
    return [
        *rows(random, "in", "t"),
        *rows(random, "other", "u"),
        then("t_join", "j", "t", other="u"),
        then("t_suppress_time", "x", "j", size=random.choice([0, 5, 30])),
        *table_out("x"),
    ]


def foreign_key_then_join(random: Random) -> list[Step]:
    return [
        *rows(random, "in", "t"),
        *rows(random, "other", "u"),
        *rows(random, "third", "v"),
        then(f"t_{random.choice(['fk_join', 'fk_left_join'])}", "f", "t", other="u"),
        then(f"t_{random.choice(TABLE_JOINS)}", "x", "f", other="v"),
        *table_out("x"),
    ]


def aggregate_then_foreign_key(random: Random) -> list[Step]:
    return [
        stream(),
        *rows(random, "other", "u"),
        *grouping(random),
        then("g_reduce", "r", "g"),
        then(f"t_{random.choice(['fk_join', 'fk_left_join'])}", "x", "r", other="u"),
        *table_out("x"),
    ]


def cogroup_then_join(random: Random) -> list[Step]:
    steps = cogroup(random)
    place = next(index for index, step in enumerate(steps) if step["op"] == "t_to_stream")
    return [
        *steps[:place],
        *rows(random, "third", "v"),
        then("t_join", "y", "x", other="v"),
        *table_out("y"),
    ]


def merge_then_windows(random: Random) -> list[Step]:
    return [
        stream(),
        stream("other", "o"),
        then("merge", "m", "s", other="o"),
        *windowed_count(random, "m"),
        *table_out("c"),
    ]


def split_then_aggregate(random: Random) -> list[Step]:
    return [
        stream(),
        then("split", "p", "s"),
        then("group_by_key", "g", "p-even"),
        then("g_count", "c", "g"),
        *table_out("c", "counts"),
        then("group_by", "h", "p-rest"),
        then("g_reduce", "r", "h"),
        *table_out("r", "reduced"),
    ]


def flat_map_then_windows(random: Random) -> list[Step]:
    return [
        stream(),
        then(random.choice(["flat_map", "flat_map_values"]), "m", "s"),
        *windowed_count(random, "m"),
        *table_out("c"),
    ]


def repartition_then_join(random: Random) -> list[Step]:
    return [
        stream(),
        stream("other", "o"),
        then("select_key", "k", "s"),
        then("repartition", "r", "k", **maybe(random, name="again")),
        then(f"j_{random.choice(JOINS)}", "x", "r", other="o", size=random.randint(0, 15), grace=10),
        out("x"),
    ]


def to_table_then_join(random: Random) -> list[Step]:
    return [
        stream(),
        *rows(random, "other", "u"),
        then("filter", "f", "s"),
        then("to_table", "t", "f", **maybe(random, store="kept")),
        then(f"t_{random.choice(TABLE_JOINS)}", "x", "t", other="u"),
        *table_out("x"),
    ]


def windowed_count_then_join(random: Random) -> list[Step]:
    return [
        stream(),
        {"op": "table", "id": "t", "topic": "rows"},
        *grouping(random),
        window(random, "time"),
        then("g_count", "c", "w"),
        then("t_to_stream", "cs", "c"),
        then("text", "ct", "cs"),
        then("select_key", "k", "ct"),
        then("j_left", "x", "k", other="t"),
        out("x"),
    ]


def foreign_key_then_aggregate(random: Random) -> list[Step]:
    return [
        *rows(random, "in", "t"),
        *rows(random, "other", "u"),
        then("t_fk_join", "f", "t", other="u"),
        then("t_group_by", "g", "f"),
        then("g_reduce", "x", "g"),
        *table_out("x"),
    ]


def join_of_joins(random: Random) -> list[Step]:
    kinds = ["join", "left_join", "outer_join"]
    return [
        *rows(random, "in", "t"),
        *rows(random, "other", "u"),
        *rows(random, "third", "v"),
        then(f"t_{random.choice(kinds)}", "j", "t", other="u", **maybe(random, store="first-join")),
        then(f"t_{random.choice(kinds)}", "x", "j", other="v", **maybe(random, store="second-join")),
        *table_out("x"),
    ]


def many_aggregates(random: Random) -> list[Step]:
    """Several repartition topics after one change of the key, which the optimization merges."""
    return [
        stream(),
        then("select_key", "k", "s"),
        then("group_by_key", "g", "k"),
        then("g_count", "c", "g"),
        *table_out("c", "counts"),
        then("filter", "f", "k"),
        then("group_by_key", "h", "f"),
        then("g_reduce", "r", "h"),
        *table_out("r", "reduced"),
    ]


def changes_then_aggregates(random: Random) -> list[Step]:
    """Several repartition topics after random changes of keys and values."""
    # Kafka Streams moves a repartition topic to before operators of these, and fails if there are two topics.
    passed = ["peek", "process", "process_values"]
    operators = ["select_key", "map", "flat_map", "map_values", "flat_map_values", *passed]
    operator, source, steps = "", "s", [stream()]
    for number in range(random.randint(1, 3)):
        operator, changed = random.choice(operators), f"changed{number}"
        options = {}
        if operator in ("process", "process_values"):
            options["store"] = f"counts{number}"
            steps.append({"op": "add_store", "id": f"q{number}", "store": options["store"]})
        steps.append(then(operator, changed, source, **options))
        source = changed
    return [
        *steps,
        then("group_by_key", "g", source),
        then("g_count", "c", "g"),
        *table_out("c", "counts"),
        then("map_values", "m", source),
        then("group_by_key", "h", "m" if operator in passed else random.choice([source, "m"])),
        then("g_reduce", "r", "h"),
        *table_out("r", "reduced"),
    ]


CHAINS: dict[str, Callable[[Random], list[Step]]] = {
    chain.__name__: chain
    for chain in (
        windowed_count_then_join,
        foreign_key_then_aggregate,
        join_of_joins,
        many_aggregates,
        changes_then_aggregates,
        windows_then_aggregate,
        closed_windows_then_aggregate,
        windows_then_stream_join,
        stream_join_then_windows,
        lookup_then_windows,
        global_lookup_then_aggregate,
        stream_join_then_lookup,
        aggregate_then_table_join,
        aggregates_joined,
        table_join_then_aggregate,
        table_join_then_lookup,
        table_aggregate_then_filter,
        aggregate_then_suppress,
        suppress_then_table_join,
        table_join_then_suppress,
        foreign_key_then_join,
        aggregate_then_foreign_key,
        cogroup_then_join,
        merge_then_windows,
        split_then_aggregate,
        flat_map_then_windows,
        repartition_then_join,
        to_table_then_join,
    )
}
