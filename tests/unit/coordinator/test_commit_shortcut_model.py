"""The shortcut of OffsetCommit gives the same results as the handler, for random commits and concurrent changes.

Two nodes get the same random commits (good, odd and damaged ones) and changes of topics, access rules and quotas; one
of them takes no shortcut. Answers, logs and the times for which the connection was muted have to be equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.apis.offset_commit import shortcut
from ottla.broker.authorization import ResourceType
from ottla.broker.context import CloseConnection, ConnectionContext
from ottla.broker.dispatch import Dispatcher
from ottla.broker.pending import PendingResponse
from ottla.broker.statistics import NodeStatistics
from ottla.model.ids import Uuid
from ottla.wire.framing import request_parts
from ottla.wire.messages import metadata_records as r
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.data_path import LISTENER
from tests.support.group_path import GroupPath
from tests.support.shortcuts import ChangingQuotas, RuleAuthorizer, UsualDispatcher, WorkingClock

OFFSET_COMMIT = OffsetCommitRequest.API_KEY
GROUPS = ("a", "b", "c" * 40)
TOPICS = ("t", "u")


class Waiter:
    def response_ready(self) -> None:
        pass


class Node:
    def __init__(self, directory: str, dispatcher: type[Dispatcher]) -> None:
        Path(directory).mkdir()
        self.path = GroupPath(directory)
        self.clock = WorkingClock(self.path.virtual.clock)
        for topic in TOPICS:
            self.path.create_topic(topic, 3)
        self.path.create_offsets_topic()
        broker: Any = SimpleNamespace(**vars(self.path.broker), statistics=NodeStatistics())
        broker.world = self.path.virtual.world.replaced(clock=self.clock)
        self.dispatcher = dispatcher(broker)
        self.authorizer = RuleAuthorizer()
        self.quotas = ChangingQuotas(self.clock)
        self.muted: list[float] = []
        self.connection = ConnectionContext(
            listener=LISTENER,
            client_host="127.0.0.1",
            client_port=50_000,
            authorizer=self.authorizer,
            quota=self.quotas,
        )
        self.connection.mute = self.muted.append
        self.answers: list[Any] = []

    def send(self, frame: bytes, work_seconds: float = 0.0) -> None:
        self.clock.begin(work_seconds)
        try:
            self.answers.append(self.dispatcher.dispatch(memoryview(frame), self.connection, Waiter()))
        except CloseConnection as order:
            self.answers.append(str(order))

    def state(self) -> Any:
        answers = [
            (answer.parts or answer.close_reason) if isinstance(answer, PendingResponse) else answer
            for answer in self.answers
        ]
        files = {path.name: path.read_bytes() for path in sorted(Path(self.path.directory).rglob("*.log"))}
        return answers, self.muted, [self.path.fetch_offsets(group) for group in GROUPS], files


@pytest.fixture
def nodes(log_directory: str) -> Iterator[list[Node]]:
    new_nodes = [Node(f"{log_directory}/{kind.__name__}", kind) for kind in (Dispatcher, UsualDispatcher)]
    yield new_nodes
    for node in new_nodes:
        node.path.stop()


def commit_frame(random: Random, node: Node) -> bytes:
    version, name = random.choice((7, 8, 9, 9, 10, 10)), random.choice(TOPICS)
    image = node.path.image.topics.by_name.get(name)
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=index,
            committed_offset=random.randrange(1 << 40),
            committed_leader_epoch=random.choice((-1, 0, 5)),
            committed_metadata=random.choice((None, "", "", "", "", "here")),
        )
        for index in random.choice(((0,), (0,), (0,), (1,), (0, 1), (7,), (0, 7)))
    ]
    topic_id = Uuid.ZERO if image is None or version < 10 else image.topic_id
    request = OffsetCommitRequest(
        group_id=random.choice(GROUPS),
        generation_id_or_member_epoch=random.choice((-1, -1, -1, -1, 3)),
        topics=[OffsetCommitRequestTopic(name=name if version < 10 else "", topic_id=topic_id, partitions=partitions)],
    )
    frame = bytearray(b"".join(bytes(part) for part in request_parts(OFFSET_COMMIT, version, 7, "c", request))[4:])  # type: ignore[arg-type]
    fate = random.random()
    if fate < 0.03:
        del frame[random.randrange(9, len(frame)) :]
    elif fate < 0.08:
        frame[random.randrange(8, len(frame))] = random.choice((0, 1, 2, 127, 128, 255))
    return bytes(frame)


def change_rules(random: Random, nodes: list[Node]) -> None:
    resources = [(ResourceType.TOPIC, "t"), (ResourceType.TOPIC, "u"), (ResourceType.GROUP, "a")]
    denied = random.sample(resources, random.choice((0, 1, 2)))
    for node in nodes:
        node.authorizer.deny(*denied)


def change_quotas(random: Random, nodes: list[Node]) -> None:
    percentage = random.choice((None, 0.1, 50.0))
    for node in nodes:
        node.quotas.set({"request_percentage": percentage})


def change_topics(random: Random, nodes: list[Node]) -> None:
    name, is_created_again = random.choice(TOPICS), random.random() < 0.7
    for node in nodes:
        image = node.path.image.topics.by_name.get(name)
        if image is not None:
            node.path.commit(r.RemoveTopicRecord(topic_id=image.topic_id))
        if image is None or is_created_again:
            node.path.create_topic(name, 3)
        node.path.run()


@pytest.mark.parametrize("changes", [(), (change_rules,), (change_quotas,), (change_rules, change_quotas)])
@pytest.mark.parametrize("seed", range(3))
def test_the_shortcut_does_what_the_handler_does(
    nodes: list[Node], seed: int, changes: tuple[Callable[..., None], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    random = Random(seed)
    recognised: list[Any] = []
    commit = shortcut._commit
    monkeypatch.setattr(shortcut, "_commit", lambda *arguments: recognised.append(0) or commit(*arguments))
    quick, usual = nodes
    for _ in range(150):
        if random.random() < 0.85:
            frame, work_seconds = commit_frame(random, quick), random.choice((0.0, 0.001, 0.5))
            for node in nodes:
                node.send(frame, work_seconds)
        else:
            random.choice((change_topics, *changes))(random, nodes)
        if random.random() < 0.4:
            for node in nodes:
                node.path.run()
        if random.random() < 0.1:
            for node in nodes:
                node.path.advance(20)
    for node in nodes:
        node.path.run()
    assert quick.state() == usual.state()
    assert len(recognised) > 10
    if change_quotas in changes:
        assert quick.muted


def test_the_authorizer_is_asked_once_for_each_resource_until_its_rules_change(nodes: list[Node]) -> None:
    quick, usual = nodes
    wanted = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    request = OffsetCommitRequest(group_id="a", topics=[OffsetCommitRequestTopic(name="t", partitions=[wanted])])
    frame = b"".join(bytes(part) for part in request_parts(OFFSET_COMMIT, 9, 7, "c", request))[4:]  # type: ignore[arg-type]
    asked_counts = []
    for node in nodes:
        for _ in range(5):
            node.send(frame)
            node.path.run()
        asked_counts.append(node.authorizer.asked)
        node.authorizer.deny((ResourceType.GROUP, "a"))
        node.send(frame)
    assert asked_counts == [2, 10]
    assert quick.state() == usual.state()
