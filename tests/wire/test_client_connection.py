"""The client end of a connection: negotiation, order, and failures."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.connection.buffers import ReceiveBuffers
from ottla.wire.connection.client import ClientConnection
from ottla.wire.framing import RequestHeader, parse_request, response_parts
from ottla.wire.message import Message
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.list_groups import ListGroupsRequest
from ottla.wire.peers import AskedRequest, PeerUnreachable, PeerUnsupported

VERSIONS = ApiVersionsResponse(
    api_keys=[
        ApiVersion(api_key=int(ApiKey.API_VERSIONS), min_version=0, max_version=3),
        ApiVersion(api_key=int(ApiKey.HEARTBEAT), min_version=0, max_version=2),
    ]
)


class Node:
    """The other end, on byte strings."""

    def __init__(self, *, waiting_max: int = 10) -> None:
        self.machine = ClientConnection(
            "node:9092",
            client_id="test",
            software=("ottla", "1"),
            response_bytes_max=1000,
            waiting_max=waiting_max,
            buffers=ReceiveBuffers(),
        )
        self._stream = b""

    def requests(self) -> list[tuple[RequestHeader, Message]]:
        self._stream += b"".join(self.machine.outgoing.parts)  # type: ignore[arg-type]
        self.machine.outgoing.clear()
        parsed = []
        while self._stream:
            size = int.from_bytes(self._stream[:4], "big")
            parsed.append(parse_request(memoryview(bytearray(self._stream[4 : 4 + size]))))
            self._stream = self._stream[4 + size :]
        return parsed

    def respond(self, header: RequestHeader, response: Message, *, version: int | None = None) -> None:
        version = header.api_version if version is None else version
        parts = response_parts(header.api_key, version, header.correlation_id, response)
        self.receive(b"".join(parts))  # type: ignore[arg-type]

    def receive(self, data: bytes) -> None:
        while data and self.machine.close_reason is None:
            target = self.machine.frames.targets()[0]
            piece = data[: len(target)]
            target[: len(piece)] = piece
            self.machine.received(len(piece))
            data = data[len(piece) :]

    def ask(self, request: Message) -> Deferred[Message]:
        deferred: Deferred[Message] = Deferred()
        self.machine.send(AskedRequest(request, API_SPECS[ApiKey(request.API_KEY)], 32767, deferred))
        return deferred

    def negotiate(self) -> None:
        self.machine.open()
        ((header, _),) = self.requests()
        self.respond(header, VERSIONS)


def test_requests_wait_for_the_versions_and_then_leave_in_order() -> None:
    node = Node()
    answers = [node.ask(HeartbeatRequest(group_id=name)) for name in "ab"]
    assert node.requests() == []
    node.negotiate()
    assert node.machine.is_open
    requests = node.requests()
    assert [(header.api_version, request.group_id) for header, request in requests] == [(2, "a"), (2, "b")]  # type: ignore[attr-defined]
    for number, (header, _) in enumerate(requests):
        node.respond(header, HeartbeatResponse(error_code=number))
    assert [answer.result().error_code for answer in answers] == [0, 1]  # type: ignore[attr-defined]
    assert node.machine.waiting == 0


def test_a_node_that_knows_only_older_versions_is_asked_again() -> None:
    """KIP-511: the node answers in version 0 and lists its versions."""
    node = Node()
    node.machine.open()
    ((header, _),) = node.requests()
    refused = ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=VERSIONS.api_keys)
    node.respond(header, refused, version=0)
    assert not node.machine.is_open
    ((header, _),) = node.requests()
    assert header.api_version == 3
    node.respond(header, VERSIONS)
    assert node.machine.is_open


def test_a_node_that_refuses_to_negotiate_is_given_up() -> None:
    node = Node()
    node.machine.open()
    ((header, _),) = node.requests()
    node.respond(header, ApiVersionsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED))
    assert "ApiVersions" in str(node.machine.close_reason)


def test_an_api_that_the_node_does_not_speak_fails_alone() -> None:
    node = Node()
    node.negotiate()
    unsupported, heartbeat = node.ask(ListGroupsRequest()), node.ask(HeartbeatRequest())
    assert isinstance(unsupported.error, PeerUnsupported)
    assert not heartbeat.done
    assert node.machine.close_reason is None


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"HTTP/1.1 400 Bad Request", "Kafka port"),
        (b"\0\0\0\4\0\0\0\x63", "another request"),
        (b"\0\0\0\5\0\0\0\2\1", "malformed"),
    ],
)
def test_what_is_no_response_ends_the_connection(data: bytes, reason: str) -> None:
    node = Node()
    node.negotiate()
    heartbeat = node.ask(HeartbeatRequest())
    node.receive(data)
    assert node.machine.close_reason is not None
    assert reason in node.machine.close_reason
    node.machine.fail(node.machine.close_reason)
    assert isinstance(heartbeat.error, PeerUnreachable)


def test_a_response_that_no_request_has_asked_for_ends_the_connection() -> None:
    node = Node()
    node.negotiate()
    node.receive(b"\0\0\0\4\0\0\0\1")
    assert node.machine.close_reason is not None


def test_too_many_requests_are_refused() -> None:
    node = Node(waiting_max=3)
    node.negotiate()
    answers = [node.ask(HeartbeatRequest()) for _ in range(4)]
    assert [answer.done for answer in answers] == [False, False, False, True]


def test_the_end_fails_every_request_whatever_a_callback_does(caplog: pytest.LogCaptureFixture) -> None:
    node = Node()
    node.negotiate()
    first, second = node.ask(HeartbeatRequest()), node.ask(HeartbeatRequest())

    def stumble(_: Any) -> None:
        raise RuntimeError("a defect")

    first.when_done(stumble)
    node.machine.fail("the network is gone")
    assert isinstance(second.error, PeerUnreachable)
    assert "node:9092: the network is gone" in str(second.error)
