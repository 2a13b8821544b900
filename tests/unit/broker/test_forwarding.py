"""A client's request on its way to the controller: in an envelope, through the controller's handlers, and back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.apis import CONTROLLER_HANDLERS, envelope, load
from ottla.broker.authorization import AllowAll, Operation
from ottla.broker.context import ConnectionContext, ListenerInfo, Principal, RequestContext
from ottla.broker.dispatch import Dispatcher
from ottla.broker.remote_controller import RemoteController, decode_principal, encode_principal
from ottla.broker.statistics import NodeStatistics
from ottla.metadata.controller import ControllerContext
from ottla.metadata.controller.decisions import DECISIONS
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.quorum.observer import ControllerAddresses
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.codec import MalformedMessage, decode, encode
from ottla.wire.framing import request_parts
from ottla.wire.message import Message
from ottla.wire.messages import alter_configs, incremental_alter_configs
from ottla.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialDeletion
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.principal import DefaultPrincipalData
from ottla.wire.peers import Endpoint, PeerUnreachable
from tests.unit.metadata.harness import CLUSTER_ID, ControllerHarness


def listener(*, is_controller: bool) -> ListenerInfo:
    return ListenerInfo(
        name="CONTROLLER" if is_controller else "PLAINTEXT",
        security_protocol="PLAINTEXT",
        host="h",
        port=1,
        advertised_host="h",
        advertised_port=1,
        is_controller=is_controller,
    )


class Watching(AllowAll):
    """Allows everything that the test does not deny, and records every question with its principal."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str]] = []
        self.denied: set[Operation] = set()
        # The groups of the last principal.
        self.groups: tuple[str, ...] = ()

    def authorize(self, context: RequestContext, operation: Operation, resource_type: Any, resource_name: str) -> bool:
        self.asked.append((str(context.principal), context.connection.client_host, operation.name))
        self.groups = context.principal.groups
        return operation not in self.denied


class ControllerNode:
    """The controller's side of the network: every request goes through its bytes."""

    def __init__(self) -> None:
        self.harness = ControllerHarness()
        self.harness.add_broker(1)
        self.authorizer = Watching()
        self.broker: Any = SimpleNamespace(
            config=self.harness.config,
            world=self.harness.world,
            node_id=1,
            cluster_id=CLUSTER_ID,
            metadata=self.harness.controller.publishers,
            controller=self.harness.controller,
            local_controller=self.harness.controller,
            statistics=NodeStatistics(),
            authorizer=self.authorizer,
        )
        self.broker.controller_dispatcher = Dispatcher(self.broker, CONTROLLER_HANDLERS)
        self.is_away = False
        self.answers_instead: list[Message] = []
        self.received: list[Message] = []

    def send(
        self, endpoint: Endpoint, request: Message, *, purpose: str, timeout_ms: int, version_max: int = 32767
    ) -> Deferred[Message]:
        assert endpoint == Endpoint("controller", 1)
        assert 0 < timeout_ms <= version_max
        self.received.append(request)
        if self.is_away:
            return Deferred.failed(PeerUnreachable("away"))
        if self.answers_instead:
            return Deferred.resolved(self.answers_instead.pop(0))
        assert isinstance(request, EnvelopeRequest), purpose
        return Deferred.resolved(self.open(request))

    def disconnect(self, endpoint: Endpoint, *, purpose: str) -> None:
        raise AssertionError("an unexpected request")

    def open(self, request: EnvelopeRequest) -> EnvelopeResponse:
        connection = ConnectionContext(
            listener=listener(is_controller=True), client_host="10.0.0.9", client_port=5, authorizer=self.authorizer
        )
        received = decode(EnvelopeRequest, memoryview(encode(request, 0)), 0)[0]
        answer = envelope.handle(received, RequestContext(58, 0, 1, "broker-2", connection, 0), self.broker)
        response = answer.result() if isinstance(answer, Deferred) else answer
        return decode(EnvelopeResponse, memoryview(encode(response, 0)), 0)[0]


@pytest.fixture
def node() -> ControllerNode:
    return ControllerNode()


@pytest.fixture
def remote(node: ControllerNode) -> RemoteController:
    return RemoteController(
        world=node.harness.world,
        peers=node,
        controllers=ControllerAddresses([Endpoint("controller", 1)]),
        forwarding_timeout_ms=5000,
        request_timeout_ms=3000,
        session_timeout_ms=1000,
    )


def of_a_client(version: int = 7, *, host: str = "10.1.2.3") -> Any:
    connection = ConnectionContext(
        listener=listener(is_controller=False), client_host=host, client_port=2, principal=Principal("User", "alice")
    )
    return RequestContext(19, version, 1, "her-client", connection, 0).for_controller()


def create(name: str) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=2, replication_factor=1)])


@pytest.mark.parametrize("version", range(2, 8))
def test_a_request_is_decided_elsewhere_and_answered_as_if_here(
    node: ControllerNode, remote: RemoteController, version: int
) -> None:
    response = remote.ask(create("t"), of_a_client(version)).result()
    assert [(topic.name, topic.error_code) for topic in response.topics] == [("t", 0)]
    if version >= 7:
        assert response.topics[0].topic_id == node.harness.image.topics.by_name["t"].topic_id
    again = remote.ask(create("t"), of_a_client(version)).result()
    assert again.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS


@pytest.mark.parametrize(("host", "seen"), [("10.1.2.3", "10.1.2.3"), ("fe80::1:2", "fe80:0:0:0:0:0:1:2")])
def test_the_controller_asks_for_the_clients_rights_not_the_brokers(
    node: ControllerNode, remote: RemoteController, host: str, seen: str
) -> None:
    remote.ask(create("t"), of_a_client(host=host)).result()
    assert node.authorizer.asked[0] == ("User:ANONYMOUS", "10.0.0.9", "CLUSTER_ACTION")
    assert node.authorizer.asked[1] == ("User:alice", seen, "CREATE")
    node.authorizer.denied = {Operation.CREATE}
    response = remote.ask(create("u"), of_a_client()).result()
    assert response.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


EVERY_ACL = DeleteAclsFilter(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1)


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (CreateAclsRequest(creations=[AclCreation(resource_type=4, operation=3, permission_type=3)]), 3),
        (DeleteAclsRequest(filters=[EVERY_ACL]), 3),
        (AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name="x", mechanism=1)]), 0),
    ],
    ids=["create ACLs", "delete ACLs", "credentials"],
)
def test_rights_and_credentials_are_changed_with_the_clients_rights(
    node: ControllerNode, remote: RemoteController, request_: Message, version: int
) -> None:
    node.authorizer.denied = {Operation.ALTER}
    client = ConnectionContext(
        listener=listener(is_controller=False), client_host="10.1.2.3", client_port=2, principal=Principal("User", "al")
    )
    context = RequestContext(request_.API_KEY, version, 1, "her-client", client, 0).for_controller()
    try:
        response: Any = remote.ask(request_, context).result()
        codes = [result.error_code for result in getattr(response, "results", None) or response.filter_results]
    except KafkaError as error:
        codes = [error.code]
    assert codes == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED]
    assert node.authorizer.asked == [
        ("User:ANONYMOUS", "10.0.0.9", "CLUSTER_ACTION"),
        ("User:al", "10.1.2.3", "ALTER"),
    ]


def test_an_answer_that_waits_for_the_commit_is_waited_for(node: ControllerNode) -> None:
    workers = node.harness.virtual.workers
    workers.immediate = False
    frame = b"".join(request_parts(19, 7, 9, "c", create("t")))[4:]  # type: ignore[arg-type]
    connection = ConnectionContext(
        listener=listener(is_controller=True), client_host="h", client_port=5, authorizer=node.authorizer
    )
    request = EnvelopeRequest(
        request_data=frame,
        request_principal=encode_principal("User", "bob", groups=("staff",)),
        client_host_address=bytes(4),
    )
    answer = envelope.handle(request, RequestContext(58, 0, 1, None, connection, 0), node.broker)
    # The rights of the client's groups hold on the controller, too.
    assert node.authorizer.groups == ("staff",)
    assert isinstance(answer, Deferred)
    assert not answer.done
    workers.run_all()
    response = answer.result()
    assert response.response_data is not None
    # The correlation id of the request inside comes back.
    assert bytes(response.response_data[:4]) == (9).to_bytes(4, "big")


def test_a_controller_that_is_away_is_tried_until_the_time_is_up(
    node: ControllerNode, remote: RemoteController
) -> None:
    node.is_away = True
    answer = remote.ask(create("t"), of_a_client())
    scheduler = node.harness.virtual.scheduler
    scheduler.advance(2000)
    assert not answer.done
    assert len(node.received) == 22
    node.is_away = False
    scheduler.advance(100)
    assert answer.result().topics[0].error_code == 0
    node.is_away = True
    answer = remote.ask(create("u"), of_a_client())
    scheduler.advance(6000)
    assert isinstance(answer.error, KafkaError)
    assert answer.error.code is ErrorCode.REQUEST_TIMED_OUT
    assert scheduler.timers == 0


def test_another_controller_is_waited_for(node: ControllerNode, remote: RemoteController) -> None:
    node.answers_instead = [EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)]
    answer = remote.ask(create("t"), of_a_client())
    assert not answer.done
    node.harness.virtual.scheduler.advance(100)
    assert answer.result().topics[0].error_code == 0


def test_what_the_broker_asks_for_itself_is_not_wrapped_nor_repeated(
    node: ControllerNode, remote: RemoteController
) -> None:
    node.is_away = True
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=5)
    assert isinstance(remote.ask(request).error, PeerUnreachable)
    assert node.received == [request]


@pytest.mark.parametrize(
    ("inner", "code"),
    [
        (b"", ErrorCode.INVALID_REQUEST),
        # Metadata is not for controllers, nor is an envelope in an envelope.
        (b"".join(request_parts(3, 12, 1, "c", MetadataRequest()))[4:], ErrorCode.INVALID_REQUEST),  # type: ignore[arg-type]
        (b"".join(request_parts(58, 0, 1, "c", EnvelopeRequest()))[4:], ErrorCode.INVALID_REQUEST),  # type: ignore[arg-type]
        (bytes.fromhex("0013 0063 00000001 ffff 00"), ErrorCode.UNSUPPORTED_VERSION),
        # CreateTopics 7 that ends in the middle.
        (bytes.fromhex("0013 0007 00000001 ffff 00 05"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_an_envelope_with_something_else_inside_is_refused(node: ControllerNode, inner: bytes, code: ErrorCode) -> None:
    request = EnvelopeRequest(
        request_data=inner, request_principal=encode_principal("User", "bob"), client_host_address=bytes(4)
    )
    assert node.open(request).error_code == code


def test_an_envelope_needs_a_principal_and_the_right_to_send_it(node: ControllerNode) -> None:
    frame = b"".join(request_parts(19, 7, 9, "c", create("t")))[4:]  # type: ignore[arg-type]
    request = EnvelopeRequest(request_data=frame, request_principal=b"\0\7", client_host_address=bytes(4))
    assert node.open(request).error_code == ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE
    node.authorizer.denied = {Operation.CLUSTER_ACTION}
    assert node.open(request).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def test_principals_come_back_as_they_went() -> None:
    principal = decode_principal(memoryview(encode_principal("User", "jörg")))
    assert (principal.type, principal.name, principal.token_authenticated) == ("User", "jörg", False)
    assert decode_principal(memoryview(encode_principal("User", "x", is_token_authenticated=True))).token_authenticated


def test_groups_travel_in_a_form_that_apache_kafka_reads() -> None:
    """Without groups the bytes are Kafka's own; with groups Kafka skips a tagged field."""
    theirs = DefaultPrincipalData(type="User", name="x")
    assert encode_principal("User", "x") == bytes(2) + encode(theirs, 0)
    data = memoryview(encode_principal("User", "x", groups=("staff", "ops")))
    assert decode_principal(data).groups == ["staff", "ops"]
    read, end = decode(DefaultPrincipalData, data, 0, 2)
    assert (read.type, read.name, end) == ("User", "x", len(data))
    with pytest.raises(MalformedMessage):
        decode_principal(memoryview(b"\0"))


@pytest.mark.parametrize("api_key", DECISIONS, ids=lambda api_key: ApiKey(api_key).name.lower())
def test_a_controllers_listener_asks_only_the_controller_of_its_node(node: ControllerNode, api_key: int) -> None:
    requests: list[tuple[Any, ControllerContext]] = []

    class Controller:
        def ask(self, request: Any, context: ControllerContext) -> Deferred[Any]:
            requests.append((request, context))
            return Deferred()

    node.broker.controller = Controller()
    spec = CONTROLLER_HANDLERS[api_key]
    request: Any = API_SPECS[ApiKey(api_key)].request_class()
    # Without resources these two are answered without the controller.
    if isinstance(request, alter_configs.AlterConfigsRequest):
        request.resources = [alter_configs.AlterConfigsResource(resource_type=2, resource_name="t")]
    elif isinstance(request, incremental_alter_configs.IncrementalAlterConfigsRequest):
        request.resources = [incremental_alter_configs.AlterConfigsResource(resource_type=2, resource_name="t")]
    connection = ConnectionContext(
        listener=listener(is_controller=True),
        client_host="10.0.0.9",
        client_port=5,
        connection_id="c-7",
        authorizer=node.authorizer,
    )
    # Otherwise requests for delegation tokens are refused.
    connection.is_forwarded = True
    context = RequestContext(api_key, spec.max_version, 1, None, connection, 0)
    load(api_key, spec).handle(request, context, node.broker)
    ((_, controller_context),) = requests
    assert controller_context.is_local_only
    assert controller_context.connection_id == "c-7"
