"""What Ottla answers to administrators, field by field, beside what Apache Kafka 4.3 answered to the same requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.testing import cluster
from tests.data.make_administration_answers import ANSWERS
from tests.support.administration_scenario import SETTINGS, play

KAFKA: dict[str, Any] = json.loads(ANSWERS.read_text())

# Where we differ on purpose, and why.
_IN_WORDS = "Kafka says in words that there is no error"
DIFFERENCES: dict[str, str] = {
    "more of nothing, version 3": "we say what is wrong",
    "feature share.version to 1 as 1, version 0": _IN_WORDS,
    "feature share.version to 1 as 2, version 0": _IN_WORDS,
    "feature metadata.version to 30 as 1, version 0": _IN_WORDS,
    "feature share.version to 1 as 1, version 1": _IN_WORDS,
    "feature share.version to 1 as 2, version 1": _IN_WORDS,
    "feature metadata.version to 30 as 1, version 1": _IN_WORDS,
}


@pytest.fixture(scope="module")
def answers() -> dict[str, Any]:
    with cluster(settings=SETTINGS) as running:
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
