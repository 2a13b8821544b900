"""Logins and delegation tokens: the same answers as Apache Kafka 4.3, in every order and for every bad token."""

from __future__ import annotations

import pytest

from tests.data.make_sasl_answers import ANSWERS
from tests.support.as_kafka import Answers, KafkasAnswers, as_kept
from tests.support.sasl_node import SaslNode
from tests.support.sasl_scenario import SETTINGS, play

# Intended differences from Apache Kafka, with their reasons.
_UNKNOWN = "the first answer does not tell whether a user or a token exists"
_NOT_DECODED = "requests of clients that have not logged in are not decoded, so they have no answer"
DIFFERENCES = {
    "SCRAM with an unknown delegation token": _UNKNOWN,
    "SCRAM of a user who says that it is a token": _UNKNOWN,
    "again as another user": _UNKNOWN,
    "a request after the handshake": _NOT_DECODED,
    "again, with a request in between": _NOT_DECODED,
    "token: create for a group": "a login with the token would make its client a user of that name",
    "token: a login with an expired token": "the token is not valid any more; Kafka closes the connection later",
    "versions first": "a second ApiVersions request does no harm",
    "again with another mechanism": "the client learns the cause before the connection is closed",
    "again with an unknown mechanism": "the client learns the cause before the connection is closed",
}

KAFKA = KafkasAnswers(ANSWERS, DIFFERENCES)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    with SaslNode(tmp_path_factory.mktemp("node"), SETTINGS) as node:
        return as_kept(play(node))


def test_the_scenario_is_the_one_kafka_was_asked(answers: Answers) -> None:
    KAFKA.check_scenario(answers)


@pytest.mark.parametrize("label", KAFKA.labels)
def test_the_same_answer(answers: Answers, label: str) -> None:
    KAFKA.check(answers, label)
