"""The small formats of arguments, in tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ottla.cli.logic.config_entities import DEFAULT, changes_of, named_entities
from ottla.cli.logic.delete_plan import parse_plan, parse_words
from ottla.cli.logic.latencies import summarize
from ottla.cli.logic.offset_times import parse_datetime, parse_duration, parse_time
from ottla.cli.logic.partition_filter import parse_partition_filter
from ottla.cli.logic.quota_entities import ENTITY_DEFAULT
from ottla.cli.logic.words import (
    matching,
    parse_assignments,
    parse_key_values,
    parse_node_ids,
    parse_partition,
    parse_settings,
    parse_topic_partitions,
)
from ottla.client.admin.configs import ConfigOperation, ResourceType
from ottla.model.ids import TopicPartition

GOOD: list[tuple[Callable[[str], object], str, object]] = [
    (parse_settings, "a=1", {"a": "1"}),
    (parse_settings, "a=1,b=[x,y],c=", {"a": "1", "b": "x,y", "c": ""}),
    (parse_settings, "a=b=c", {"a": "b=c"}),
    (parse_assignments, "1:2,2:3", {0: [1, 2], 1: [2, 3]}),
    (parse_partition, "a-b-3", TopicPartition("a-b", 3)),
    (parse_partition, "a:3", TopicPartition("a", 3)),
    (parse_topic_partitions, "t", ("t", None)),
    (parse_topic_partitions, "t:0,2-4", ("t", [0, 2, 3, 4])),
    (parse_time, "latest", -1),
    (parse_time, "EARLIEST", -2),
    (parse_time, "-3", -3),
    (parse_time, "1700000000000", 1_700_000_000_000),
    (parse_time, "1970-01-01T00:00:01", 1_000),
    (parse_datetime, "1970-01-01T00:00:00.250", 250),
    (parse_datetime, "1970-01-01T02:00:00.000+02:00", 0),
    (parse_datetime, "1970-01-01T02:00:00.000+02", 0),
    (parse_datetime, "1970-01-01T00:01", 60_000),
    (parse_duration, "P1DT2H3M4.5S", 93_784_500),
    (parse_duration, "PT0S", 0),
    (parse_duration, "-PT1M", -60_000),
]

BAD: list[tuple[Callable[[str], object], str]] = [
    (parse_settings, "nothing"),
    (parse_assignments, "1:1"),
    (parse_assignments, "1:2,3"),
    (parse_assignments, "a:b"),
    (parse_partition, "topic"),
    (parse_topic_partitions, "t:x"),
    (parse_time, "-9"),
    (parse_time, "soon"),
    (parse_datetime, "yesterday"),
    (parse_datetime, "2024-13-01T00:00:00.000"),
    (parse_duration, "P"),
    (parse_duration, "1h"),
]


@pytest.mark.parametrize(("parse", "text", "expected"), GOOD)
def test_what_is_meant(parse: Callable[[str], object], text: str, expected: object) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(("parse", "text"), BAD)
def test_what_cannot_be_meant(parse: Callable[[str], object], text: str) -> None:
    with pytest.raises(ValueError):
        parse(text)


def test_key_values_and_node_ids() -> None:
    assert parse_key_values(["a=b=c", " x = y "], option="--o") == {"a": "b=c", "x": "y"}
    assert parse_key_values(["a= ", " x = y "], option="--o", literal=True) == {"a": " ", "x": " y "}
    with pytest.raises(ValueError, match="--o"):
        parse_key_values(["oops"], option="--o")
    assert parse_node_ids("1, 2", option="--o") == [1, 2]
    with pytest.raises(ValueError, match="--o"):
        parse_node_ids("1,x", option="--o")


def test_names_match_as_a_whole() -> None:
    names = ["orders", "orders-2", "pay"]
    assert matching(names, []) == sorted(names)
    assert matching(names, ["orders"]) == ["orders"]
    assert matching(names, ["orders.*,pay"]) == sorted(names)
    with pytest.raises(ValueError, match="regular expression"):
        matching(names, ["("])


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("t:1", [("t", 1)]),
        ("t:1-3", [("t", 1), ("t", 2)]),
        ("t:2-", [("t", 2), ("t", 3)]),
        ("t:-1", [("t", 0)]),
        ("u", [("u", 0), ("u", 1), ("u", 2), ("u", 3)]),
        ("t:0,u:3", [("t", 0), ("u", 3)]),
        (":3", [("t", 3), ("u", 3)]),
    ],
)
def test_partition_rules(rule: str, expected: list[tuple[str, int]]) -> None:
    wanted = parse_partition_filter(rule, "", None)
    assert [(name, number) for name in "tu" for number in range(4) if wanted(name, number)] == expected


def test_plans_of_deletion() -> None:
    topic_partition = TopicPartition("t", 0)
    assert parse_plan('{"version":1,"partitions":[{"topic":"t","partition":0,"offset":3}]}') == {topic_partition: 3}
    assert parse_words(["t:0:-1"]) == {topic_partition: -1}
    for text in ("no", "{}", '{"partitions":[{"topic":"t"}]}'):
        with pytest.raises(ValueError):
            parse_plan(text)


def test_whose_settings() -> None:
    assert named_entities(topics=["a"], broker_defaults=True) == [
        (ResourceType.TOPIC, "a"),
        (ResourceType.BROKER, DEFAULT),
    ]
    assert named_entities(types=["brokers", "topics"], names=["1"]) == [
        (ResourceType.BROKER, "1"),
        (ResourceType.TOPIC, None),
    ]
    assert named_entities(types=["brokers"], names=[ENTITY_DEFAULT]) == [(ResourceType.BROKER, DEFAULT)]
    for wrong in ({}, {"types": ["tables"]}, {"types": ["users"]}, {"brokers": ["one"]}):
        with pytest.raises(ValueError):
            named_entities(**wrong)  # type: ignore[arg-type]


def test_which_changes() -> None:
    changes = changes_of(["a=1,b=2"], {"b": "0", "c": "3"}, ["d, e"])
    assert [(change.name, change.value, change.operation) for change in changes] == [
        ("b", "2", ConfigOperation.SET),
        ("c", "3", ConfigOperation.SET),
        ("a", "1", ConfigOperation.SET),
        ("d", None, ConfigOperation.DELETE),
        ("e", None, ConfigOperation.DELETE),
    ]
    with pytest.raises(ValueError, match="at once"):
        changes_of(["a=1"], {}, ["a"])


def test_percentiles() -> None:
    times = summarize([float(number) for number in range(1, 1001)])
    assert (times.measured, times.max_ms, times.p50_ms, times.p99_ms, times.p999_ms) == (1000, 1000, 501, 991, 1000)
    assert summarize([]).max_ms == 0
