"""What Ottla answers, field by field, beside what Apache Kafka 4.3 answered to the same requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.testing import cluster
from tests.data.make_data_path_answers import ANSWERS
from tests.support.data_path_scenario import SETTINGS, play

KAFKA: dict[str, Any] = json.loads(ANSWERS.read_text())

# Where we differ on purpose, and why.
_STARTS = "the log's start offset is told although the records were refused before they came to the log"
DIFFERENCES: dict[str, str] = {
    "a batch cut short": _STARTS,
    "less than a header": _STARTS,
    "two batches": _STARTS,
    "magic 1": _STARTS,
    "zstd before version 7": _STARTS,
    "list -3 after deletion": "the record of the largest timestamp was deleted; Kafka names its offset all the same",
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
