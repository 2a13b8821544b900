"""ACLs: the same answers as Apache Kafka 4.3 gives, and the same records in the metadata log."""

from __future__ import annotations

import pytest

from tests.data.make_acl_answers import ANSWERS
from tests.support.acl_scenario import SETTINGS, play
from tests.support.as_kafka import Answers, KafkasAnswers, as_kept
from tests.support.brokers import OttlaFromFile

# Where we differ on purpose, and why.
_SAID = "Apache Kafka fails with UNKNOWN_SERVER_ERROR; we say what is wrong"
DIFFERENCES = {
    f"refused: only for filters: {kind}": _SAID
    for kind in ("any resource", "any pattern", "match", "any operation", "any permission")
}

KAFKA = KafkasAnswers(ANSWERS, DIFFERENCES)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    with OttlaFromFile(tmp_path_factory.mktemp("node"), SETTINGS) as node:
        log = node.log_directory / "__cluster_metadata-0" / f"{0:020}.log"
        return as_kept(play(node.bootstrap, node.controller, log))


def test_the_scenario_is_the_one_kafka_was_asked(answers: Answers) -> None:
    KAFKA.check_scenario(answers)


@pytest.mark.parametrize("label", KAFKA.labels)
def test_the_same_answer(answers: Answers, label: str) -> None:
    KAFKA.check(answers, label)
