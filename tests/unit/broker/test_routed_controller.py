"""Which controller a node with the controller role asks: the local one or the remote one."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.routed_controller import RoutedController
from ottla.metadata.controller import ControllerContext
from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.peers import PeerUnreachable
from tests.unit.metadata.harness import ControllerHarness

REMOTE_ANSWER = CreateTopicsResponse(throttle_time_ms=77)


class Remote:
    def __init__(self) -> None:
        self.asked: list[tuple[Any, ControllerContext | None]] = []
        self.answer: Deferred[Any] = Deferred.resolved(REMOTE_ANSWER)

    def ask(self, request: Any, context: ControllerContext | None = None) -> Deferred[Any]:
        self.asked.append((request, context))
        return self.answer


class Node:
    def __init__(self) -> None:
        self.harness = ControllerHarness()
        self.harness.add_broker(1)
        self.local = self.harness.controller
        self.remote = Remote()
        self.routed = RoutedController(self.local, self.remote)


@pytest.fixture
def node() -> Node:
    return Node()


def create(name: str = "t") -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])


def code_of(answer: Deferred[Any]) -> ErrorCode:
    assert isinstance(answer.error, KafkaError)
    return answer.error.code


def test_the_local_controller_answers_while_it_is_active(node: Node) -> None:
    assert node.routed.ask(create()).result().topics[0].error_code == ErrorCode.NONE
    assert "t" in node.harness.image.topics.by_name
    assert not node.remote.asked


def test_the_remote_controller_answers_while_the_local_one_is_not_active(node: Node) -> None:
    node.local.deactivate()
    request, context = create(), ControllerContext(api_version=5)
    assert node.routed.ask(request, context).result() is REMOTE_ANSWER
    assert node.remote.asked == [(request, context)]


def test_a_request_is_asked_of_the_remote_controller_after_leadership_was_lost(node: Node) -> None:
    node.harness.virtual.workers.immediate = False
    request = create()
    answer = node.routed.ask(request)
    assert not answer.done
    assert not node.remote.asked
    node.local.deactivate()
    assert answer.result() is REMOTE_ANSWER
    assert node.remote.asked == [(request, None)]


def test_another_error_of_the_local_controller_is_the_answer(node: Node) -> None:
    request = create()
    request.topics = [create().topics[0] for _ in range(10_001)]
    for index, topic in enumerate(request.topics):
        topic.name = f"t{index}"
    assert code_of(node.routed.ask(request)) is ErrorCode.POLICY_VIOLATION
    assert not node.remote.asked


def test_an_error_of_the_remote_controller_is_the_answer(node: Node) -> None:
    node.local.deactivate()
    node.remote.answer = Deferred.failed(PeerUnreachable("away"))
    assert isinstance(node.routed.ask(create()).error, PeerUnreachable)


def test_a_request_from_a_controllers_listener_is_never_sent_on(node: Node) -> None:
    node.local.deactivate()
    answer = node.routed.ask(create(), ControllerContext(is_local_only=True))
    assert code_of(answer) is ErrorCode.NOT_CONTROLLER
    assert not node.remote.asked


def test_a_request_from_a_controllers_listener_is_not_sent_on_after_leadership_was_lost(node: Node) -> None:
    node.harness.virtual.workers.immediate = False
    answer = node.routed.ask(create(), ControllerContext(is_local_only=True))
    node.local.deactivate()
    assert code_of(answer) is ErrorCode.NOT_CONTROLLER
    assert not node.remote.asked
