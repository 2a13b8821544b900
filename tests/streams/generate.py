"""Random cases for every operator, from a seed: the topology with random options, and records that are late, out of
order, without key or value, or equal in time."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from tests.streams.chains import CHAINS
from tests.streams.operators import OPERATOR_CASES, Step

__all__ = ["OPERATORS", "make_case"]

OPERATORS: dict[str, Callable[[Random], list[Step]]] = {**OPERATOR_CASES, **CHAINS}
KEYS = ["a", "b", "c", "ab"]
VALUES = ["a", "b", "ab", "ba", "abc", "cab", "bb", "c"]
# The interval between two checks for closed windows, as in a running application.
SELDOM = {
    "__emit.interval.ms.kstreams.windowed.aggregation__": 1000,
    "__emit.interval.ms.kstreams.outer.join.spurious.results.fix__": 1000,
}

# The optimization changes these topologies the most: every second seed has it.
CHANGED_BY_OPTIMIZATION = ("many_aggregates", "changes_then_aggregates", "self_join")


def make_case(operator: str, seed: int) -> dict[str, Any]:
    random = Random(f"{operator} {seed}")
    steps = OPERATORS[operator](random)
    topics = [step["topic"] for step in steps if step["op"] in ("stream", "table", "global_table")]
    outputs = [step["topic"] for step in steps if step["op"] == "to"]
    if any(step["op"] == "to_dynamic" for step in steps):
        outputs += ["even", "odd"]
    config = dict(SELDOM) if random.random() < 0.3 else {}
    if random.random() < 0.3 or (operator in CHANGED_BY_OPTIMIZATION and seed % 2 == 0):
        config["topology.optimization"] = "all"
    # Kafka Streams fails when a grouped table or a buffer of a join gets a record without a key.
    has_null_keys = not any(step["op"] == "t_group_by" or "versioned" in step for step in steps)
    inputs = make_inputs(random, topics, has_null_keys=has_null_keys)
    return {"topology": steps, "inputs": inputs, "outputs": outputs, "config": config}


def make_inputs(random: Random, topics: list[str], *, has_null_keys: bool) -> list[list[Any]]:
    inputs: list[list[Any]] = []
    now = random.choice([0, 0, 20, 1000])
    spread = random.choice([3, 10, 40])
    for _ in range(random.randint(5, 40)):
        if random.random() < 0.05:
            inputs.append([random.choice([1, 10, 1000, 5000])])
            continue
        key = random.choice(KEYS)
        if random.random() < 0.07 and has_null_keys:
            key = None
        value = None if random.random() < 0.12 else random.choice(VALUES)
        step = random.random()
        if step < 0.5:
            now += random.randint(0, spread)
        timestamp = now if step < 0.75 else max(0, now - random.randint(0, 3 * spread))
        inputs.append([random.choice(topics), key, value, timestamp])
    return inputs
