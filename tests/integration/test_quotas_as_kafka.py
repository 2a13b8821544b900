"""Quotas set, shown and felt, field by field and to the millisecond as with Apache Kafka 4.3."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.testing import cluster
from tests.data.make_quota_answers import ANSWERS
from tests.support.quota_scenario import play

KAFKA: dict[str, Any] = json.loads(ANSWERS.read_text())

# Where we differ on purpose, and why.
DIFFERENCES: dict[str, str] = {
    "fetch a batch that is too large": "a consumer that never gets it would stand still for ever",
    "a client without an id": "it has the default of client ids too: a quota that is evaded by saying nothing is none",
}


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    with cluster() as running:
        played: dict[str, Any] = json.loads(json.dumps(play(running.bootstrap)))
    return played


def test_the_scenario_is_the_one_kafka_was_asked(answers: dict[str, Any]) -> None:
    assert list(answers) == list(KAFKA)


@pytest.mark.parametrize("label", KAFKA)
def test_the_same_answer(answers: dict[str, Any], label: str) -> None:
    if label in DIFFERENCES:
        assert answers[label] != KAFKA[label], f"no difference any more: {label}"
    else:
        assert answers[label] == KAFKA[label]
