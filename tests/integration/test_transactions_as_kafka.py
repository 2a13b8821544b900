"""Transactional producers: answers and written records, compared with those of Apache Kafka 4.3."""

from __future__ import annotations

import pytest

from tests.data.make_transaction_answers import ANSWERS
from tests.support.as_kafka import Answers, KafkasAnswers, played_with_ottla
from tests.support.transaction_scenario import SETTINGS, play

# Intended differences from Apache Kafka, with their reasons.
_IN_WORDS = "Kafka says in words that there is no error"
DIFFERENCES = dict.fromkeys(("coordinator, version 1", "level 1: downgrade", "level 0: downgrade"), _IN_WORDS)

KAFKA = KafkasAnswers(ANSWERS, DIFFERENCES)


@pytest.fixture(scope="module")
def answers() -> Answers:
    return played_with_ottla(play, SETTINGS)


def test_the_scenario_is_the_one_kafka_was_asked(answers: Answers) -> None:
    KAFKA.check_scenario(answers)


@pytest.mark.parametrize("label", KAFKA.labels)
def test_the_same_answer_or_record(answers: Answers, label: str) -> None:
    KAFKA.check(answers, label)
