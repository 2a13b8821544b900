"""Requests that name the same object several times: the same answers as Apache Kafka 4.3 gives."""

from __future__ import annotations

import pytest

from tests.data.make_repeat_answers import ANSWERS
from tests.support.as_kafka import Answers, KafkasAnswers, as_kept
from tests.support.brokers import OttlaNode
from tests.support.repeats_scenario import play

# Intended differences from Apache Kafka, with their reasons.
DIFFERENCES = {"alter configs": "Apache Kafka does not answer an AlterConfigs with a repeated resource at all"}

KAFKA = KafkasAnswers(ANSWERS, DIFFERENCES)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    with OttlaNode(tmp_path_factory.mktemp("node")) as node:
        return as_kept(play(node.bootstrap))


def test_the_scenario_is_the_one_kafka_was_asked(answers: Answers) -> None:
    KAFKA.check_scenario(answers)


@pytest.mark.parametrize("label", KAFKA.labels)
def test_the_same_answer(answers: Answers, label: str) -> None:
    KAFKA.check(answers, label)
