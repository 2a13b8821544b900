"""Administrative requests: Ottla's answers, compared field by field with those of Apache Kafka 4.3."""

from __future__ import annotations

import pytest

from tests.data.make_administration_answers import ANSWERS
from tests.support.administration_scenario import SETTINGS, play
from tests.support.as_kafka import Answers, KafkasAnswers, played_with_ottla

# Intended differences from Apache Kafka, with their reasons.
_IN_WORDS = "Kafka says in words that there is no error"
DIFFERENCES = {
    "more of nothing, version 3": "we say what is wrong",
    "feature share.version to 1 as 1, version 0": _IN_WORDS,
    "feature share.version to 1 as 2, version 0": _IN_WORDS,
    "feature metadata.version to 30 as 1, version 0": _IN_WORDS,
    "feature share.version to 1 as 1, version 1": _IN_WORDS,
    "feature share.version to 1 as 2, version 1": _IN_WORDS,
    "feature metadata.version to 30 as 1, version 1": _IN_WORDS,
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
