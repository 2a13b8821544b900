"""The consumer protocol: answers and written records, compared with those of Apache Kafka 4.3."""

from __future__ import annotations

import pytest

from tests.data.make_consumer_group_answers import ANSWERS
from tests.support.as_kafka import Answers, KafkasAnswers, played_with_ottla
from tests.support.consumer_group_scenario import SETTINGS, play

KAFKA = KafkasAnswers(ANSWERS)


@pytest.fixture(scope="module")
def answers() -> Answers:
    return played_with_ottla(play, SETTINGS)


def test_the_scenario_is_the_one_kafka_was_asked(answers: Answers) -> None:
    KAFKA.check_scenario(answers)


@pytest.mark.parametrize("label", KAFKA.labels)
def test_the_same_answer_or_record(answers: Answers, label: str) -> None:
    KAFKA.check(answers, label)
