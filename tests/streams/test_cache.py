"""The record cache against Kafka Streams: the updates that a flush or an eviction forwards.

The test driver commits after every record; several updates of a key come from one record by `flat_map_values`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from ottla.streams import (
    Consumed,
    Grouped,
    Materialized,
    Produced,
    Serdes,
    SessionWindows,
    StreamsBuilder,
    TopologyTestDriver,
)
from ottla.streams.machine import InputRecord, StreamTask, TaskSettings
from ottla.streams.machine.record_cache import CacheBudget
from tests.streams.cases import run_case
from tests.streams.compare import smallest_that
from tests.streams.generate import make_case
from tests.streams.oracle.java import StreamsOracle, reason

TEXT = Serdes.string()
CACHED = [
    "to_table",
    "count",
    "reduce",
    "aggregate",
    "time_count",
    "time_aggregate",
    "sliding_count",
    "session_count",
    "session_aggregate",
    "cogroup",
    "table_filter",
    "table_map_values",
    "table_join",
    "table_left_join",
    "table_outer_join",
    "table_count",
    "table_aggregate",
    "table_fk_join",
    "foreign_key_then_aggregate",
    "stream_table_left",
    "suppress_time",
]


@pytest.fixture(scope="module")
def oracle() -> Iterator[StreamsOracle]:
    why = reason()
    if why is not None:
        pytest.skip(why)
    with StreamsOracle() as streams_oracle:
        yield streams_oracle


def cached_case(operator: str, seed: int) -> dict[str, Any]:
    """A case whose records bring several updates, with a cache that is large or of a few entries."""
    case = make_case(operator, seed)
    random = Random(seed)
    topology: list[dict[str, Any]] = []
    for step in case["topology"]:
        if step["op"] == "stream":
            topology.append({**step, "id": f"{step['id']}.all"})
            topology.append({"op": "flat_map_values", "id": step["id"], "in": f"{step['id']}.all"})
        else:
            topology.append(step)
    # Windows and sessions: only the flush is that of Kafka Streams, not the order of evictions.
    is_exact = not operator.startswith(("time", "sliding", "session", "suppress"))
    size = random.choice([10_000_000, random.randrange(1, 700)]) if is_exact else 10_000_000
    return {**case, "topology": topology, "config": {**case["config"], "statestore.cache.max.bytes": size}}


def difference(oracle: StreamsOracle, case: dict[str, Any]) -> str | None:
    java, python = oracle.ask(case), run_case(case)
    if "error" in java or java["steps"] != python["steps"]:
        return f"Kafka Streams: {java.get('steps', java)}\nOttla: {python['steps']}"
    return None


@pytest.mark.java
@pytest.mark.parametrize("operator", CACHED)
def test_a_cached_operator_emits_what_kafka_streams_emits(oracle: StreamsOracle, operator: str) -> None:
    for seed in range(6):
        case = cached_case(operator, seed)
        if difference(oracle, case) is not None:
            case = smallest_that(lambda shorter: difference(oracle, shorter) is not None, case)
            pytest.fail(f"seed {seed}: {difference(oracle, case)}\n{json.dumps(case)}")


def counting_task(cache: int | CacheBudget, *, is_cached: bool = True) -> StreamTask:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, TEXT)).group_by_key(Grouped.with_(TEXT, TEXT))
    stored = Materialized.as_("counts") if is_cached else Materialized.as_("counts").with_caching_disabled()
    stream.count(stored).to_stream().map_values(str).to("out", Produced.with_(TEXT, TEXT))
    topology = builder.build()
    return StreamTask(
        topology, topology.nodes, TaskSettings(), cache=CacheBudget(cache) if isinstance(cache, int) else cache
    )


def outputs(task: StreamTask, *keys: str) -> list[tuple[bytes | None, bytes | None]]:
    task.enqueue("in", 0, [InputRecord(key.encode(), b"x", number) for number, key in enumerate(keys)])
    task.run()
    return [(record.key, record.value) for record in task.take_outputs()[0]]


def test_updates_of_a_key_coalesce_until_the_commit() -> None:
    task = counting_task(10_000)
    assert outputs(task, "a", "b", "a", "a") == []
    task.flush()
    assert outputs(task) == [(b"b", b"1"), (b"a", b"3")]
    assert outputs(task, "b") == []
    task.flush()
    assert outputs(task) == [(b"b", b"2")]


def test_a_full_cache_forwards_before_the_commit() -> None:
    # An entry takes 80 bytes: its key, a value of 16, the name of the topic, and 61.
    task = counting_task(170)
    assert outputs(task, "a", "b") == []
    # The oldest entry is evicted, which flushes all other updates.
    assert outputs(task, "c") == [(b"a", b"1"), (b"b", b"1"), (b"c", b"1")]


def test_a_store_without_caching_forwards_every_update() -> None:
    assert outputs(counting_task(10_000, is_cached=False), "a", "a") == [(b"a", b"1"), (b"a", b"2")]
    assert outputs(counting_task(0), "a", "a") == [(b"a", b"1"), (b"a", b"2")]


def test_a_closed_task_gives_its_bytes_back() -> None:
    budget = CacheBudget(10_000)
    task = counting_task(budget)
    outputs(task, "a", "b")
    assert budget.bytes_used > 0
    task.close()
    assert budget.bytes_used == 0


def test_cached_sessions_have_the_headers_of_the_record() -> None:
    builder = StreamsBuilder()
    sessions = builder.stream("in", Consumed.with_(TEXT, TEXT)).group_by_key(Grouped.with_(TEXT, TEXT))
    counts = sessions.windowed_by(SessionWindows.of_inactivity_gap_with_no_grace(10)).count()
    changes = counts.to_stream().map(lambda key, count: (key.key, str(count)))
    changes.to("out", Produced.with_(TEXT, TEXT))
    headers = (("h", b"1"),)
    # As in Kafka Streams, updates that no cache holds have no headers.
    for size, expected in ((0, ()), (1_000, headers)):
        driver = TopologyTestDriver(builder.build(), {"statestore.cache.max.bytes": size})
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("k", "x", 1, headers)
        assert driver.create_output_topic("out", TEXT, TEXT).read_record().headers == expected


def test_the_test_driver_shows_a_record_once() -> None:
    builder = StreamsBuilder()
    stream = builder.stream("in", Consumed.with_(TEXT, TEXT)).flat_map_values(list)
    stream.group_by_key(Grouped.with_(TEXT, TEXT)).count().to_stream().to("out", Produced.with_(TEXT, Serdes.long()))
    for size, expected in ((0, [("k", 1), ("k", 2), ("k", 3)]), (1_000, [("k", 3)])):
        driver = TopologyTestDriver(builder.build(), {"statestore.cache.max.bytes": size})
        driver.create_input_topic("in", TEXT, TEXT).pipe_input("k", "abc", 1)
        assert driver.create_output_topic("out", TEXT, Serdes.long()).read_key_values() == expected
