"""Classic groups: answers and written records, compared with those of Apache Kafka 4.3."""

from __future__ import annotations

import pytest

from tests.data.make_classic_group_answers import ANSWERS
from tests.support.as_kafka import Answers, KafkasAnswers, played_with_ottla
from tests.support.classic_group_scenario import SETTINGS, play

# Intended differences from Apache Kafka, with their reasons.
_IN_WORDS = "Kafka says in words that there is no error"
DIFFERENCES = {f"coordinator, version {version}": _IN_WORDS for version in (1, 2, 3)}

KAFKA = KafkasAnswers(ANSWERS, DIFFERENCES)


@pytest.fixture(scope="module")
def answers() -> Answers:
    return played_with_ottla(play, SETTINGS)


def test_the_scenario_is_the_one_kafka_was_asked(answers: Answers) -> None:
    KAFKA.check_scenario(answers)


@pytest.mark.parametrize("label", KAFKA.labels)
def test_the_same_answer_or_record(answers: Answers, label: str) -> None:
    KAFKA.check(answers, label)
