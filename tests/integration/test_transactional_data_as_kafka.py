"""Answers about records, markers and offsets of transactions, beside those of Apache Kafka 4.3."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.testing import cluster
from tests.data.make_transactional_data_answers import ANSWERS
from tests.support.transactional_data_scenario import SETTINGS, play

KAFKA: dict[str, Any] = json.loads(ANSWERS.read_text())


@pytest.fixture(scope="module")
def heard() -> dict[str, Any]:
    with cluster(settings=SETTINGS) as running:
        played: dict[str, Any] = json.loads(json.dumps(play(running.bootstrap)))
    return played


def test_the_scenario_is_the_one_kafka_was_asked(heard: dict[str, Any]) -> None:
    assert list(heard) == list(KAFKA)


@pytest.mark.parametrize("label", KAFKA)
def test_the_same_answer(heard: dict[str, Any], label: str) -> None:
    assert heard[label] == KAFKA[label]
