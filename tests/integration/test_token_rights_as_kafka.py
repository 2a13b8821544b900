"""Delegation tokens under many sets of ACLs: the same answers as Apache Kafka 4.3 gives."""

from __future__ import annotations

import pytest

from tests.data.make_token_rights_answers import ANSWERS
from tests.support.as_kafka import Answers, KafkasAnswers, as_kept
from tests.support.sasl_node import SaslNode
from tests.support.token_rights_scenario import SETTINGS, play

KAFKA = KafkasAnswers(ANSWERS)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    with SaslNode(tmp_path_factory.mktemp("node"), SETTINGS) as node:
        return as_kept(play(node))


def test_the_scenario_is_the_one_kafka_was_asked(answers: Answers) -> None:
    KAFKA.check_scenario(answers)


@pytest.mark.parametrize("label", KAFKA.labels)
def test_the_same_answers(answers: Answers, label: str) -> None:
    KAFKA.check(answers, label)
