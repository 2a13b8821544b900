"""Lookups of produced records' schemas in the registry, and refusals without a lookup."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.records.errors import InvalidRecords
from ottla.records.schema_tags import SchemaRules, SchemaTags
from ottla.replica.schema_checks import RegistryDown, SchemaChecks
from tests.support.virtual_world import VirtualWorld

RULES = SchemaRules("", "io.confluent.kafka.serializers.subject.TopicNameStrategy")
VALUES: SchemaTags = {(False, 7): [0, 1, 2]}


class Registry:
    def __init__(self) -> None:
        self.subjects: dict[int, list[str]] = {}
        self.asked: list[str] = []
        self.is_down = False
        self.virtual = VirtualWorld(immediate_workers=True)
        self.checks = SchemaChecks(self.virtual.world, self.ask)

    def ask(self, path: str) -> bytes | None:
        self.asked.append(path)
        if self.is_down:
            raise OSError("nobody there")
        subjects = self.subjects.get(int(path.split("/")[3]))
        return None if subjects is None else json.dumps(subjects).encode()

    def check(self, topic: str = "t", tags: SchemaTags = VALUES, rules: SchemaRules = RULES) -> None:
        outcome = self.checks.check(topic, rules, tags)
        if isinstance(outcome, Deferred):
            outcome.result()


def test_an_accepted_schema_is_asked_for_once_in_minutes() -> None:
    registry = Registry()
    registry.subjects[7] = ["t-value"]
    for _ in range(3):
        registry.check()
    assert registry.asked == ["/schemas/ids/7/subjects"]
    registry.virtual.clock.ms += 301_000
    registry.check()
    assert len(registry.asked) == 2


def test_a_schema_is_asked_for_again_before_it_is_refused() -> None:
    """A schema that is known for one topic may just have been registered for another."""
    registry = Registry()
    registry.subjects[7] = ["t-value"]
    registry.check()
    registry.subjects[7].append("u-value")
    registry.check("u")
    with pytest.raises(InvalidRecords) as caught:
        registry.check("v")
    assert [record_error.batch_index for record_error in caught.value.record_errors] == [0, 1, 2]
    lookup_count = len(registry.asked)
    with pytest.raises(InvalidRecords):
        registry.check("v")
    assert len(registry.asked) == lookup_count, "a refusal counts for a second"
    registry.subjects[7].append("v-value")
    registry.virtual.clock.ms += 1_100
    registry.check("v")


def test_a_registry_that_is_down_is_not_asked_for_every_batch() -> None:
    registry = Registry()
    registry.is_down = True
    for _ in range(3):
        with pytest.raises(RegistryDown, match="nobody there") as caught:
            registry.check()
        assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
    assert len(registry.asked) == 1
    registry.virtual.clock.ms += 1_100
    with pytest.raises(RegistryDown):
        registry.check(tags={(False, number): [number] for number in range(100)})
    assert len(registry.asked) == 2, "a batch with many schemas does not wait for each of them"
    registry.is_down = False
    registry.subjects[7] = ["t-value"]
    registry.virtual.clock.ms += 1_100
    registry.check()


def test_what_was_accepted_stays_accepted_while_the_registry_is_down() -> None:
    registry = Registry()
    registry.subjects[7] = ["t-value"]
    registry.check()
    registry.is_down = True
    registry.virtual.clock.ms += 301_000
    for _ in range(2):
        registry.check()
        # The same schema is unknown for another topic.
        with pytest.raises(RegistryDown):
            registry.check("u")
    registry.is_down = False
    registry.subjects[7] = ["u-value"]
    registry.virtual.clock.ms += 1_100
    with pytest.raises(InvalidRecords):
        registry.check()


def test_a_batch_may_name_many_schemas_of_the_registry() -> None:
    registry = Registry()
    registry.subjects = {number: ["t-value"] for number in range(5_000)}
    tags: SchemaTags = {(False, number): [number] for number in registry.subjects}
    registry.check(tags=tags)
    assert len(registry.asked) == 5_000
    registry.check(tags=tags)
    assert len(registry.asked) == 5_000
    del registry.subjects[250]
    registry.virtual.clock.ms += 301_000
    with pytest.raises(InvalidRecords) as caught:
        registry.check(tags=tags)
    assert [record_error.batch_index for record_error in caught.value.record_errors] == [250]


def test_what_an_attacker_can_cause() -> None:
    registry = Registry()
    with pytest.raises(InvalidRecords, match="do not have a schema"):
        registry.check(tags={(False, None): [0]})
    # A hundred thousand schemas are counted in one pass over them.
    with pytest.raises(InvalidRecords, match="more than 5000 schemas"):
        registry.check(tags={(False, number): [number] for number in range(100_000)})
    assert registry.asked == []
    with pytest.raises(InvalidRecords, match="do not have a schema") as caught:
        registry.check(tags={(False, number): [number] for number in range(5_000)})
    assert len(registry.asked) == len(caught.value.record_errors) == 100


def test_a_broker_without_a_registry_says_so() -> None:
    checks = SchemaChecks(VirtualWorld().world, None)
    with pytest.raises(KafkaError, match=r"no confluent\.schema\.registry\.url") as caught:
        checks.check("t", RULES, VALUES)
    assert caught.value.code is ErrorCode.INVALID_CONFIG


@pytest.mark.parametrize(
    ("strategy", "subjects", "is_accepted"),
    [
        ("TopicNameStrategy", ["t-value"], True),
        ("TopicNameStrategy", [":.ctx:t-value"], True),
        ("TopicNameStrategy", ["t-key", "u-value"], False),
        ("RecordNameStrategy", ["x.Person"], True),
        ("TopicRecordNameStrategy", ["t-x.Person"], True),
        ("TopicRecordNameStrategy", ["u-x.Person"], False),
    ],
)
def test_strategies(strategy: str, subjects: list[str], is_accepted: bool) -> None:
    registry = Registry()
    registry.subjects[7] = subjects
    rules: Any = SchemaRules("", strategy)
    if is_accepted:
        registry.check(rules=rules)
        return
    with pytest.raises(InvalidRecords):
        registry.check(rules=rules)
