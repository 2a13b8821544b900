"""Made-up data: the same for the same seed, at a steady rate."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from ottla.connect.api import ConfigError, ReadLimit
from ottla.connect.plugins.connectors.generator import TEMPLATES, GeneratorReader, GeneratorSourceConnector

PARTITION: Mapping[str, Any] = {"generator": "t", "task": 0}


def reader(clock: list[float] | None = None, **config: str) -> GeneratorReader:
    settings = GeneratorSourceConnector.config_definitions().parse({"topic": "t", **config})
    times = clock if clock is not None else [0.0]
    return GeneratorReader(settings, now=lambda: times[0])


def rows(generator: GeneratorReader, start: int, end: int) -> list[dict[str, Any]]:
    batches = generator.read(PARTITION, {"record": start}, {"record": end})
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("template", sorted(TEMPLATES))
def test_any_range_is_the_same_each_time(template: str) -> None:
    whole = rows(reader(template=template), 0, 1000)
    assert len(whole) == 1000
    assert rows(reader(template=template), 300, 450) == whole[300:450]
    assert rows(reader(template=template, seed="1"), 0, 1000) != whole


def test_values_are_within_what_was_declared() -> None:
    fields = [
        {"name": "n", "type": "int64", "kind": "sequence"},
        {"name": "small", "type": "int32", "min": 3, "max": 5},
        {"name": "word", "type": "string", "choices": ["a", "b"]},
        {"name": "part", "type": "double", "min": 0, "max": 1},
    ]
    generated = rows(reader(fields=json.dumps(fields), **{"key.field": "n"}), 0, 2000)
    assert [row["key"] for row in generated] == list(range(2000))
    values = [row["value"] for row in generated]
    assert {value["small"] for value in values} == {3, 4, 5}
    assert {value["word"] for value in values} == {"a", "b"}
    assert all(0 <= value["part"] <= 1 for value in values)
    assert len({value["part"] for value in values}) > 50


def test_the_rate_bounds_what_there_is() -> None:
    clock = [100.0]
    generator = reader(clock, rate="10")
    assert generator.latest(PARTITION, None, ReadLimit()) is None
    clock[0] += 2.0
    assert generator.latest(PARTITION, None, ReadLimit()) == {"record": 20}
    assert generator.latest(PARTITION, {"record": 20}, ReadLimit()) == {"record": 20}
    clock[0] += 1.0
    assert generator.latest(PARTITION, {"record": 20}, ReadLimit(records=3)) == {"record": 23}


def test_the_count_ends_it() -> None:
    generator = reader(rate="0", count="5")
    assert generator.latest(PARTITION, None, ReadLimit()) == {"record": 5}
    assert generator.latest(PARTITION, {"record": 5}, ReadLimit()) == {"record": 5}


def test_wrong_fields_are_refused() -> None:
    for fields in ("x", "[]", '[{"name": "a"}]', '[{"name": "a", "type": "blob"}]'):
        with pytest.raises(ConfigError):
            reader(fields=fields)
    with pytest.raises(ConfigError):
        reader(**{"key.field": "none"})
