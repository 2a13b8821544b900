"""Brokers and controllers refuse disabled features in every version as Apache Kafka 4.3 does."""

from __future__ import annotations

import pytest

from tests.data.make_switched_off_answers import ANSWERS
from tests.support.as_kafka import Answers, KafkasAnswers, as_kept
from tests.support.brokers import OttlaFromFile
from tests.support.switched_off_scenario import play

# Intended differences from Apache Kafka, with their reasons.
_NO_HANDLER = "a controller of Apache Kafka announces this API, but has nothing that answers it"
DIFFERENCES = {
    f"controller: describe {whose} tokens, version {version}": _NO_HANDLER
    for whose in ("all", "no", "a user's")
    for version in (1, 2, 3)
}

KAFKA = KafkasAnswers(ANSWERS, DIFFERENCES)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    with OttlaFromFile(tmp_path_factory.mktemp("node")) as node:
        return as_kept(play(node.bootstrap, node.controller))


def test_the_scenario_is_the_one_kafka_was_asked(answers: Answers) -> None:
    KAFKA.check_scenario(answers)


@pytest.mark.parametrize("label", KAFKA.labels)
def test_the_same_answer(answers: Answers, label: str) -> None:
    KAFKA.check(answers, label)
