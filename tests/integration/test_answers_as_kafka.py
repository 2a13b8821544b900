"""The data path: Ottla's answers, compared field by field with those of Apache Kafka 4.3 to the same requests."""

from __future__ import annotations

import pytest

from tests.data.make_data_path_answers import ANSWERS
from tests.support.as_kafka import Answers, KafkasAnswers, played_with_ottla
from tests.support.data_path_scenario import SETTINGS, play

# Intended differences from Apache Kafka, with their reasons.
_STARTS = "the log's start offset is told although the records were refused before they came to the log"
DIFFERENCES = {
    "a batch cut short": _STARTS,
    "less than a header": _STARTS,
    "two batches": _STARTS,
    "magic 1": _STARTS,
    "zstd before version 7": _STARTS,
    "list -3 after deletion": "the record of the largest timestamp was deleted; Kafka names its offset all the same",
}

KAFKA = KafkasAnswers(ANSWERS, DIFFERENCES)


@pytest.fixture(scope="module")
def answers() -> Answers:
    return played_with_ottla(play, SETTINGS)


def test_the_scenario_is_the_one_kafka_was_asked(answers: Answers) -> None:
    KAFKA.check_scenario(answers)


@pytest.mark.parametrize("label", KAFKA.labels)
def test_the_same_answer(answers: Answers, label: str) -> None:
    KAFKA.check(answers, label)
