"""Answers to transactional producers, and the records written of them, beside those of Apache Kafka 4.3."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.testing import cluster
from tests.data.make_transaction_answers import ANSWERS
from tests.support.transaction_scenario import SETTINGS, play

KAFKA: dict[str, Any] = json.loads(ANSWERS.read_text())

# Where we differ on purpose, and why.
_IN_WORDS = "Kafka says in words that there is no error"
DIFFERENCES: dict[str, str] = dict.fromkeys(
    ("coordinator, version 1", "level 1: downgrade", "level 0: downgrade"), _IN_WORDS
)


@pytest.fixture(scope="module")
def heard() -> dict[str, Any]:
    with cluster(settings=SETTINGS) as running:
        played: dict[str, Any] = json.loads(json.dumps(play(running.bootstrap)))
    return played


def test_the_scenario_is_the_one_kafka_was_asked(heard: dict[str, Any]) -> None:
    assert list(heard) == list(KAFKA)


@pytest.mark.parametrize("label", KAFKA)
def test_the_same_answer_or_record(heard: dict[str, Any], label: str) -> None:
    if label in DIFFERENCES:
        assert heard[label] != KAFKA[label], f"no difference any more: {label}"
    else:
        assert heard[label] == KAFKA[label]
