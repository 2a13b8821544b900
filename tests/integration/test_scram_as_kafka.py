"""SCRAM credentials: the same answers as Apache Kafka 4.3 gives, and the same records in the metadata log."""

from __future__ import annotations

import pytest

from ottla.testing import cluster
from ottla.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from ottla.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from tests.data.make_scram_answers import ANSWERS
from tests.support.as_kafka import Answers, KafkasAnswers, as_kept
from tests.support.brokers import OttlaFromFile
from tests.support.raw_client import RawClient
from tests.support.scram_scenario import play

# Intended differences from Apache Kafka, with their reasons.
_NO_HANDLER = "a controller of Apache Kafka announces this API, but has nothing that answers it"
DIFFERENCES = {
    "set without password": "we say what is wrong",
    "controller: describe": _NO_HANDLER,
    "controller: describe all": _NO_HANDLER,
}

KAFKA = KafkasAnswers(ANSWERS, DIFFERENCES)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    with OttlaFromFile(tmp_path_factory.mktemp("node")) as node:
        log = node.log_directory / "__cluster_metadata-0" / f"{0:020}.log"
        return as_kept(play(node.bootstrap, node.controller, log))


def test_the_scenario_is_the_one_kafka_was_asked(answers: Answers) -> None:
    KAFKA.check_scenario(answers)


@pytest.mark.parametrize("label", KAFKA.labels)
def test_the_same_answer(answers: Answers, label: str) -> None:
    KAFKA.check(answers, label)


def test_every_node_takes_a_credential_and_knows_it_after_a_restart_but_does_not_log_it() -> None:
    secret = b"the-salted-password-itself"
    with cluster(nodes=3) as running:
        for node in running.nodes:
            change = ScramCredentialUpsertion(
                name=f"user-{node.node_id}",
                mechanism=2,
                iterations=4096,
                salt=memoryview(b"salt"),
                salted_password=memoryview(secret),
            )
            with RawClient(node.address) as client:
                request = AlterUserScramCredentialsRequest(upsertions=[change])
                assert [result.error_code for result in client.call(request, 0).results] == [0]
        running.nodes[2].stop()
        running.nodes[2].start()
        with RawClient(running.nodes[2].address) as client:
            described = client.call(DescribeUserScramCredentialsRequest(users=None), 0)
        assert [(result.user, len(result.credential_infos)) for result in described.results] == [
            ("user-1", 1),
            ("user-2", 1),
            ("user-3", 1),
        ]
        for node in running.nodes:
            assert secret.decode() not in node.output
            files = [path for path in node.directory.rglob("*") if path.is_file()]
            assert not [path for path in files if secret in path.read_bytes()]
