"""Dispatch: from a frame to its response, and the handling of malformed and unsupported requests."""

from __future__ import annotations

import logging
import struct
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from ottla.broker.apis import HANDLERS
from ottla.broker.apis.api import Api
from ottla.broker.context import CloseConnection, ConnectionContext, ListenerInfo, RequestContext
from ottla.broker.dispatch import Dispatcher
from ottla.broker.pending import Part, PendingResponse
from ottla.broker.statistics import NodeStatistics
from ottla.metadata.image import FeaturesImage
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.quorum.errors import MetadataLogFailedError
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.codec import decode
from ottla.wire.framing import request_parts
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

LISTENER = ListenerInfo(
    name="PLAINTEXT", security_protocol="PLAINTEXT", host="h", port=1, advertised_host="h", advertised_port=1
)


class Clock:
    def now_ms(self) -> int:
        return 1234

    def monotonic(self) -> float:
        return 5.0


class Waiter:
    def __init__(self) -> None:
        self.times = 0

    def response_ready(self) -> None:
        self.times += 1


@pytest.fixture
def broker() -> Any:
    image = SimpleNamespace(offset=17, features=FeaturesImage(finalized={"metadata.version": 25}))
    return SimpleNamespace(
        config=SimpleNamespace(ottla_client_metrics_enable=False),
        cluster_id="cluster",
        node_id=1,
        world=SimpleNamespace(clock=Clock()),
        statistics=NodeStatistics(),
        metadata=SimpleNamespace(image=image),
        kraft_version=lambda: 0,
        supported_features={"metadata.version": (7, 27), "kraft.version": (0, 1)},
    )


@pytest.fixture
def connection() -> ConnectionContext:
    return ConnectionContext(listener=LISTENER, client_host="127.0.0.1", client_port=2, connection_id="c-1")


def handler(monkeypatch: pytest.MonkeyPatch, api_key: int, handle: Any, error_response: Any = None) -> None:
    """Puts a handler in the place of an API's own."""
    module = ModuleType("ottla.broker.apis.under_test")
    spec = API_SPECS[ApiKey(api_key)]
    module.API = Api(  # type: ignore[attr-defined]
        request=spec.request_class, response=spec.response_class, handle=handle, error_response=error_response
    )
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(HANDLERS, api_key, HANDLERS[api_key]._replace(module="under_test"))


def frame(
    api_key: int, version: int, request: Any, correlation_id: int = 9, client_id: str | None = "me"
) -> memoryview:
    parts = request_parts(api_key, version, correlation_id, client_id, request)
    return memoryview(bytearray(b"".join(parts)))[4:]  # type: ignore[arg-type]


def answer(parts: Any, response_class: Any, version: int, *, flexible: bool = False) -> tuple[int, Any]:
    data = b"".join(parts)
    size, correlation_id = struct.unpack_from(">ii", data)
    assert size == len(data) - 4
    response, end = decode(response_class, memoryview(data), version, 9 if flexible else 8)
    assert end == len(data)
    return correlation_id, response


def test_api_versions_lists_every_handler(broker: Any, connection: ConnectionContext) -> None:
    request = ApiVersionsRequest(client_software_name="test-1", client_software_version="4.0.1")
    parts = Dispatcher(broker).dispatch(frame(18, 4, request), connection, Waiter())
    correlation_id, response = answer(parts, ApiVersionsResponse, 4)
    assert correlation_id == 9
    assert response.error_code == 0
    assert {api.api_key: (api.min_version, api.max_version) for api in response.api_keys} == {
        key: (spec.min_version, spec.max_version) for key, spec in HANDLERS.items()
    }
    assert response.finalized_features_epoch == 17
    assert [(f.name, f.min_version_level, f.max_version_level) for f in response.finalized_features] == [
        ("metadata.version", 25, 25)
    ]
    assert [(f.name, f.min_version, f.max_version) for f in response.supported_features] == [
        ("kraft.version", 0, 1),
        ("metadata.version", 7, 27),
    ]
    assert connection.client_software_name == "test-1"


def test_api_versions_3_shows_no_feature_from_level_0(broker: Any, connection: ConnectionContext) -> None:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    parts = Dispatcher(broker).dispatch(frame(18, 3, request), connection, Waiter())
    _, response = answer(parts, ApiVersionsResponse, 3)
    assert [(f.name, f.min_version) for f in response.supported_features] == [("metadata.version", 7)]


@pytest.mark.parametrize("version", [0, 1, 2])
def test_api_versions_before_3_knows_no_features(broker: Any, connection: ConnectionContext, version: int) -> None:
    parts = Dispatcher(broker).dispatch(frame(18, version, ApiVersionsRequest()), connection, Waiter())
    _, response = answer(parts, ApiVersionsResponse, version)
    assert (response.error_code, response.supported_features) == (0, [])
    assert len(response.api_keys) == len(HANDLERS)


@pytest.mark.parametrize(
    ("name", "software_version"), [("", ""), ("", "1"), ("a", ""), ("-a", "1"), ("a b", "1"), ("a", "1.")]
)
def test_api_versions_refuses_odd_software_names(
    broker: Any, connection: ConnectionContext, name: str, software_version: str
) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version=software_version)
    parts = Dispatcher(broker).dispatch(frame(18, 3, request), connection, Waiter())
    _, response = answer(parts, ApiVersionsResponse, 3)
    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert response.api_keys == []


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "code"),
    [
        (None, -1, ErrorCode.NONE),
        ("cluster", 1, ErrorCode.NONE),
        ("cluster", 2, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("other", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("cluster", -1, ErrorCode.INVALID_REQUEST),
        (None, 1, ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_misrouted_client_learns_of_it_with_its_first_request(
    broker: Any, connection: ConnectionContext, cluster_id: str | None, node_id: int, code: ErrorCode
) -> None:
    request = ApiVersionsRequest(
        client_software_name="a", client_software_version="1", cluster_id=cluster_id, node_id=node_id
    )
    _, response = answer(
        Dispatcher(broker).dispatch(frame(18, 5, request), connection, Waiter()), ApiVersionsResponse, 5
    )
    assert response.error_code == code
    assert bool(response.api_keys) == (code is ErrorCode.NONE)
    # Older versions leave the ids out.
    _, response = answer(
        Dispatcher(broker).dispatch(frame(18, 4, request), connection, Waiter()), ApiVersionsResponse, 4
    )
    assert response.error_code == ErrorCode.NONE


def test_a_controllers_listener_does_not_compare_the_ids(broker: Any) -> None:
    listener = LISTENER.replaced(is_controller=True)
    controller = ConnectionContext(listener=listener, client_host="127.0.0.1", client_port=2, connection_id="c-1")
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1", cluster_id="other", node_id=2)
    parts = Dispatcher(broker).dispatch(frame(18, 5, request), controller, Waiter())
    assert answer(parts, ApiVersionsResponse, 5)[1].error_code == ErrorCode.NONE


@pytest.mark.parametrize("version", [6, 32767, -1])
def test_unknown_version_of_api_versions_is_answered_in_version_0(
    broker: Any, connection: ConnectionContext, version: int
) -> None:
    raw = memoryview(bytearray(struct.pack(">hhi", 18, version, 77) + b"\x00\x02meanything"))
    correlation_id, response = answer(Dispatcher(broker).dispatch(raw, connection, Waiter()), ApiVersionsResponse, 0)
    assert correlation_id == 77
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(api.api_key, api.min_version, api.max_version) for api in response.api_keys] == [(18, 0, 5)]


@pytest.mark.parametrize(
    ("api_key", "version", "sentence"),
    [
        (0, 2, "Produce request of version 2"),
        (0, 99, "Produce request of version 99"),
        (3, -1, "Metadata request of version -1"),
        (58, 0, "API key 58"),
        (9999, 0, "API key 9999"),
        (-1, 0, "API key -1"),
    ],
)
def test_unknown_apis_and_versions_close_the_connection(
    broker: Any, connection: ConnectionContext, api_key: int, version: int, sentence: str
) -> None:
    raw = memoryview(bytearray(struct.pack(">hhihi", api_key, version, 1, -1, 0)))
    with pytest.raises(CloseConnection, match=sentence):
        Dispatcher(broker).dispatch(raw, connection, Waiter())


@pytest.mark.parametrize("length", range(8, 30))
def test_truncated_requests_close_the_connection(
    broker: Any, connection: ConnectionContext, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    handler(monkeypatch, 20, lambda *_: DeleteTopicsResponse())
    whole = frame(20, 5, DeleteTopicsRequest(topic_names=["topic-a", "topic-b"], timeout_ms=1))
    assert len(whole) > 30
    header_size = 10 + len("me") + 1
    why = "the request header ends early"
    if length >= header_size:
        why = "(DeleteTopicsRequest version 5 ends early|topic_names exceeds .*)"
    with pytest.raises(CloseConnection, match=f"^a malformed DeleteTopics version 5 request: {why}$"):
        Dispatcher(broker).dispatch(whole[:length], connection, Waiter())


def test_a_client_id_longer_than_the_frame_closes_the_connection(broker: Any, connection: ConnectionContext) -> None:
    # A request without a body is malformed, and affects no other request.
    raw = memoryview(bytearray(struct.pack(">hhih", 18, 0, 1, 500)))
    with pytest.raises(CloseConnection, match="client_id is longer than the frame"):
        Dispatcher(broker).dispatch(raw, connection, Waiter())


def test_the_handler_gets_the_headers_fields(
    broker: Any, connection: ConnectionContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[RequestContext] = []

    def handle(request: DeleteTopicsRequest, context: RequestContext, handler_broker: Any) -> DeleteTopicsResponse:
        assert handler_broker is broker
        seen.append(context)
        return DeleteTopicsResponse(responses=[DeletableTopicResult(name=name) for name in request.topic_names])

    handler(monkeypatch, 20, handle)
    request = frame(20, 5, DeleteTopicsRequest(topic_names=["a", "b"]), correlation_id=-5, client_id=None)
    correlation_id, response = answer(
        Dispatcher(broker).dispatch(request, connection, Waiter()), DeleteTopicsResponse, 5, flexible=True
    )
    assert correlation_id == -5
    assert [result.name for result in response.responses] == ["a", "b"]
    (context,) = seen
    assert (context.api_key, context.api_version, context.client_id, context.received_ms) == (20, 5, None, 1234)
    assert context.listener_name == "PLAINTEXT"
    assert str(context.principal) == "User:ANONYMOUS"
    statistics = broker.statistics.apis[20]
    assert (statistics.requests, statistics.errors, statistics.request_bytes) == (1, 0, len(request))


def test_tagged_fields_of_the_header_are_skipped(
    broker: Any, connection: ConnectionContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []

    def handle(request: DeleteTopicsRequest, context: RequestContext, _: Any) -> DeleteTopicsResponse:
        seen.append(request.topic_names)
        return DeleteTopicsResponse()

    handler(monkeypatch, 20, handle)
    plain = bytes(frame(20, 5, DeleteTopicsRequest(topic_names=["a"]), client_id="me"))
    assert plain[12:13] == b"\x00"
    # Two unknown tags of one and three bytes in the place of none.
    tagged = plain[:12] + b"\x02\x05\x01x\x06\x03xyz" + plain[13:]
    assert Dispatcher(broker).dispatch(memoryview(bytearray(tagged)), connection, Waiter()) is not None
    assert seen == [["a"]]


def test_a_deferred_answer_is_encoded_when_it_comes(
    broker: Any, connection: ConnectionContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    deferred: Deferred[Any] = Deferred()
    handler(monkeypatch, 20, lambda *_: deferred)
    waiter = Waiter()
    pending = Dispatcher(broker).dispatch(frame(20, 5, DeleteTopicsRequest()), connection, waiter)
    assert isinstance(pending, PendingResponse)
    assert (pending.ready, waiter.times) == (False, 0)
    deferred.resolve(DeleteTopicsResponse(throttle_time_ms=3))
    assert (pending.ready, waiter.times) == (True, 1)
    assert answer(pending.parts, DeleteTopicsResponse, 5, flexible=True)[1].throttle_time_ms == 3


@pytest.mark.parametrize("way", ["failed", "failed later"])
def test_a_change_of_unknown_outcome_is_not_answered(
    broker: Any, connection: ConnectionContext, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    error = MetadataLogFailedError("the disk failed")
    later: Deferred[Any] = Deferred()
    handler(monkeypatch, 20, lambda *_: later if way == "failed later" else Deferred.failed(error))
    dispatcher = Dispatcher(broker)
    if way == "failed":
        with pytest.raises(CloseConnection, match="outcome is not known"):
            dispatcher.dispatch(frame(20, 5, DeleteTopicsRequest()), connection, Waiter())
        return
    pending = dispatcher.dispatch(frame(20, 5, DeleteTopicsRequest()), connection, Waiter())
    assert isinstance(pending, PendingResponse)
    later.fail(error)
    assert pending.ready
    assert pending.parts is None
    assert "outcome is not known" in str(pending.close_reason)


@pytest.mark.parametrize("way", ["raised", "failed", "failed later"])
def test_errors_are_answered_for_every_element(
    broker: Any, connection: ConnectionContext, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    error = KafkaError(ErrorCode.NOT_CONTROLLER, "elsewhere")
    later: Deferred[Any] = Deferred()

    def handle(*_: Any) -> Any:
        if way == "raised":
            raise error
        return Deferred.failed(error) if way == "failed" else later

    handler(monkeypatch, 2, handle)
    partitions = [ListOffsetsPartition(partition_index=index) for index in (3, 4)]
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=partitions)])
    outcome: Any = Dispatcher(broker).dispatch(frame(2, 5, request), connection, Waiter())
    if way == "failed later":
        later.fail(error)
        outcome = outcome.parts
    _, response = answer(outcome, ListOffsetsResponse, 5)
    assert [
        (topic.name, partition.partition_index, partition.error_code)
        for topic in response.topics
        for partition in topic.partitions
    ] == [("t", 3, ErrorCode.NOT_CONTROLLER), ("t", 4, ErrorCode.NOT_CONTROLLER)]
    assert broker.statistics.apis[2].errors == 1


def test_a_defect_is_logged_and_answered_as_unknown_server_error(
    broker: Any, connection: ConnectionContext, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def handle(*_: Any) -> Any:
        raise ZeroDivisionError("a defect")

    def error_response(request: Any, version: int, error: KafkaError) -> DeleteTopicsResponse:
        return DeleteTopicsResponse(responses=[DeletableTopicResult(name="own", error_code=error.code)])

    handler(monkeypatch, 20, handle, error_response)
    with caplog.at_level(logging.ERROR):
        parts = Dispatcher(broker).dispatch(frame(20, 5, DeleteTopicsRequest()), connection, Waiter())
    _, response = answer(parts, DeleteTopicsResponse, 5, flexible=True)
    assert [(result.name, result.error_code) for result in response.responses] == [("own", -1)]
    assert "a defect" in caplog.text
    assert "c-1" in caplog.text


def test_a_response_that_cannot_be_encoded_is_a_defect_too(
    broker: Any, connection: ConnectionContext, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    handler(monkeypatch, 60, lambda *_: object())
    from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse

    parts = Dispatcher(broker).dispatch(frame(60, 0, DescribeClusterRequest()), connection, Waiter())
    _, response = answer(parts, DescribeClusterResponse, 0, flexible=True)
    assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "DescribeCluster" in caplog.text


def test_no_answer_and_orders_to_close_pass_through(
    broker: Any, connection: ConnectionContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcomes: list[Any] = [None, CloseConnection("acks=0 failed")]

    def handle(*_: Any) -> Any:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome
        return None

    handler(monkeypatch, 20, handle)
    dispatcher = Dispatcher(broker)
    parts: list[Part] | PendingResponse | None = dispatcher.dispatch(
        frame(20, 5, DeleteTopicsRequest()), connection, Waiter()
    )
    assert parts is None
    with pytest.raises(CloseConnection, match="acks=0"):
        dispatcher.dispatch(frame(20, 5, DeleteTopicsRequest()), connection, Waiter())


class Throttling:
    """A quota that every request exceeds."""

    is_set = True
    measures_time = True
    limits_connections = False

    def charge(self, *_: object, **__: object) -> int:
        return 77


@pytest.mark.parametrize("is_late", [False, True])
def test_a_throttled_client_is_told_so_with_an_error_too(
    broker: Any, connection: ConnectionContext, monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    waiting: Deferred[Any] = Deferred()

    def handle(*_: object) -> Any:
        if is_late:
            return waiting
        raise KafkaError(ErrorCode.POLICY_VIOLATION)

    handler(monkeypatch, 20, handle)
    connection.quota = Throttling()  # type: ignore[assignment]
    request = DeleteTopicsRequest(topic_names=["a"], timeout_ms=1)
    parts: Any = Dispatcher(broker).dispatch(frame(20, 5, request), connection, Waiter())
    if is_late:
        waiting.fail(KafkaError(ErrorCode.POLICY_VIOLATION))
        parts = parts.parts
    _, response = answer(parts, DeleteTopicsResponse, 5, flexible=True)
    assert response.throttle_time_ms == 77
