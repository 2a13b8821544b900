"""Requests that a broker forwards in an Envelope: the controller decides by the rights of the client.

The brokers of the cluster allow everything, so every refusal comes from the controller.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.apis import FORWARDABLE
from ottla.broker.remote_controller import encode_principal
from ottla.model.access import Operation, PatternType, Permission, ResourceType
from ottla.model.errors import ErrorCode
from ottla.wire.codec import decode
from ottla.wire.framing import request_parts
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.envelope import EnvelopeRequest
from tests.data.make_authorization_answers import read_answers
from tests.support.authorization_scenario import Places, play_forwarded
from tests.support.forwarding_cluster import ForwardingCluster
from tests.support.raw_client import RawClient

KAFKA = read_answers()
# Requests whose answers depend on more than the controller's decision.
ELSEWHERE = {
    "elect all leaders": "names the topics of groups and transactions, which this cluster does not have",
    "alter configs by steps": "a broker decides about its own loggers",
}


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).resolve().parents[2]))
        with ForwardingCluster(tmp_path_factory.mktemp("cluster")) as cluster:
            yield cluster.places


@pytest.fixture(scope="module")
def answers(places: Places) -> dict[str, Any]:
    played: dict[str, Any] = json.loads(json.dumps(play_forwarded(places, FORWARDABLE)))
    return played


def test_every_forwarded_request_is_answered_as_by_a_kafka_that_is_the_controller(answers: dict[str, Any]) -> None:
    different = {
        (label, name): (ours["answers"][ours["sets"][name]], KAFKA[label]["answers"][KAFKA[label]["sets"][name]])
        for label, ours in answers.items()
        for name in ours["sets"]
        if label.partition(",")[0] not in ELSEWHERE
        and ours["answers"][ours["sets"][name]] != KAFKA[label]["answers"][KAFKA[label]["sets"][name]]
    }
    assert len(answers) > 20
    assert not different


def topic_request(name: str) -> CreateTopicsRequest:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=5_000)


def test_the_controller_knows_the_address_of_the_client(places: Places) -> None:
    """Every broker connects from the same address to the controller."""
    rule = AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name="by-address",
        resource_pattern_type=PatternType.PREFIXED,
        principal="User:client",
        host="127.0.0.9",
        operation=Operation.CREATE,
        permission_type=Permission.ALLOW,
    )
    with RawClient(places.nodes) as administrator:
        created = administrator.call(CreateAclsRequest(creations=[rule]), 3)
    assert [result.error_code for result in created.results] == [0]
    codes = []
    for number, address in enumerate(("127.0.0.1", "127.0.0.9", "127.0.0.10")):
        with RawClient(places.clients, source=address) as client:
            codes.append(client.call(topic_request(f"by-address-{number}"), 7).topics[0].error_code)
    refused = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert codes == [refused, ErrorCode.NONE, refused]


def envelope(user: str, name: str) -> EnvelopeRequest:
    inside = b"".join(bytes(part) for part in request_parts(19, 7, 1, "forger", topic_request(name)))
    return EnvelopeRequest(
        request_data=inside[4:],
        request_principal=encode_principal("User", user),
        client_host_address=b"\x7f\0\0\1",
    )


def test_an_envelope_of_a_client_without_cluster_action_is_refused(places: Places) -> None:
    """A client cannot become a super user by forging the envelope of a broker."""
    with RawClient(places.controller_for_clients) as forger:
        answer = forger.call(envelope("node", "forged"), 0)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert not answer.response_data


def test_the_principal_in_the_envelope_decides_not_the_sender(places: Places) -> None:
    with RawClient(places.controller) as node:
        for user, code in (("nobody", ErrorCode.TOPIC_AUTHORIZATION_FAILED), ("node", ErrorCode.NONE)):
            answer = node.call(envelope(user, f"of-{user}"), 0)
            assert answer.error_code == ErrorCode.NONE
            # Behind the correlation id and the empty tags of the header.
            inside, _ = decode(CreateTopicsResponse, memoryview(answer.response_data), 7, 5)
            assert inside.topics[0].error_code == code
