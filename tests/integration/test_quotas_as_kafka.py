"""Quotas: settings, descriptions and throttle times equal those of Apache Kafka 4.3, to the millisecond."""

from __future__ import annotations

import pytest

from tests.data.make_quota_answers import ANSWERS
from tests.support.as_kafka import Answers, KafkasAnswers, played_with_ottla
from tests.support.quota_scenario import play

# Intended differences from Apache Kafka, with their reasons.
DIFFERENCES = {
    "fetch a batch that is too large": "a consumer that never gets it would stand still for ever",
    "a client without an id": "it has the default of client ids too: a quota that is evaded by saying nothing is none",
}

KAFKA = KafkasAnswers(ANSWERS, DIFFERENCES)


@pytest.fixture(scope="module")
def answers() -> Answers:
    return played_with_ottla(play)


def test_the_scenario_is_the_one_kafka_was_asked(answers: Answers) -> None:
    KAFKA.check_scenario(answers)


@pytest.mark.parametrize("label", KAFKA.labels)
def test_the_same_answer(answers: Answers, label: str) -> None:
    KAFKA.check(answers, label)
