"""Sends extreme requests to a node, and checks what must hold after each of them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from random import Random

from ottla.broker.apis import CONTROLLER_HANDLERS, HANDLERS
from ottla.model.ids import Uuid
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.message import Message
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.extreme_requests import ExtremeRequests, versions_of
from tests.support.lone_node import LoneNode, NoAnswer, frame_of

__all__ = ["APIS", "ExtremeRun", "Figures", "name_of"]

# Longer than any wait except those whose length the request itself sets.
WAIT_SECONDS_MAX = 130
# CPU time of the loop for a request: a constant part and a part per byte. Compiling a codec takes some milliseconds.
CPU_SECONDS_MAX = 1.0
CPU_SECONDS_PER_BYTE_MAX = 100e-6
# Size of an answer: a constant part and a part per byte of the request.
ANSWER_BYTES_MAX = 1 << 20
ANSWER_BYTES_PER_BYTE_MAX = 500

APIS = [(api_key, False) for api_key in sorted(HANDLERS)] + [
    (api_key, True) for api_key in sorted(CONTROLLER_HANDLERS) if HANDLERS.get(api_key) != CONTROLLER_HANDLERS[api_key]
]

# After these requests the node may legitimately stop serving or leading.
ENDS_SERVICE = {
    ApiKey.VOTE,
    ApiKey.BEGIN_QUORUM_EPOCH,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.BROKER_REGISTRATION,
    ApiKey.BROKER_HEARTBEAT,
    ApiKey.UNREGISTER_BROKER,
    ApiKey.CONTROLLER_REGISTRATION,
    ApiKey.ADD_RAFT_VOTER,
    ApiKey.REMOVE_RAFT_VOTER,
    ApiKey.UPDATE_RAFT_VOTER,
    ApiKey.ENVELOPE,
}


@dataclass(slots=True)
class Figures:
    requests: int = 0
    closed: int = 0
    unanswered: int = 0
    # The longest turn of the loop, and the size of the request that caused it.
    longest_seconds: float = 0.0
    longest_frame: int = 0
    largest_answer: int = 0


class ExtremeRun:
    """A node and the requests that are sent to it."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.node = LoneNode(**{"group.initial.rebalance.delay.ms": "0"})
        self._log = self.node.log_collector()
        logging.getLogger("ottla").addHandler(self._log)
        self.figures = Figures()
        self._requests = ExtremeRequests(self._random, self._create_topics())

    def close(self) -> None:
        logging.getLogger("ottla").removeHandler(self._log)

    def _create_topics(self) -> list[Uuid]:
        compacted = CreatableTopicConfig(name="cleanup.policy", value="compact")
        topics = [
            CreatableTopic(name="t", num_partitions=2, replication_factor=1),
            CreatableTopic(name="c", num_partitions=2, replication_factor=1, configs=[compacted]),
        ]
        self.node.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=topics, timeout_ms=10_000))
        self._wake_coordinators()
        answer = self.node.ask(ApiKey.METADATA, 12, MetadataRequest(topics=None))
        return [topic.topic_id for topic in answer.topics]

    def _wake_coordinators(self) -> None:
        """Creates a group "g" and a transactional id "x", so that requests for them get past the first check."""
        node = self.node
        for key_type, key in ((0, "g"), (1, "x")):
            request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
            while node.ask(ApiKey.FIND_COORDINATOR, 4, request).coordinators[0].error_code:
                node.run_for(0.1)
        partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
        commit = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=partitions)])
        while node.ask(ApiKey.OFFSET_COMMIT, 8, commit).topics[0].partitions[0].error_code:
            node.run_for(0.1)
        begin = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
        while node.ask(ApiKey.INIT_PRODUCER_ID, 4, begin).error_code:
            node.run_for(0.1)

    def send(self, api_key: int, *, at_controller: bool) -> None:
        """Sends a request in a random version."""
        version = self._random.choice(versions_of(api_key, at_controller=at_controller))
        request = self._requests.draw(api_key, version)
        frame = frame_of(api_key, version, request)
        figures = self.figures
        figures.requests += 1
        try:
            answer = self.node.send(frame, at_controller=at_controller, seconds_max=WAIT_SECONDS_MAX)
        except NoAnswer:
            assert _may_wait(request), f"no answer to {request!r:.2000}"
            figures.unanswered += 1
        else:
            figures.closed += answer.close_reason is not None
            if answer.blocked_seconds > figures.longest_seconds:
                figures.longest_seconds, figures.longest_frame = answer.blocked_seconds, len(frame)
            size = len(answer.body or b"")
            figures.largest_answer = max(figures.largest_answer, size)
            summary = f"{answer.cpu_seconds:.2f} s and {size} bytes for {len(frame)} bytes of version {version}"
            assert answer.cpu_seconds < CPU_SECONDS_MAX + CPU_SECONDS_PER_BYTE_MAX * len(frame), (
                f"{summary}: {request!r:.2000}"
            )
            assert size < ANSWER_BYTES_MAX + ANSWER_BYTES_PER_BYTE_MAX * len(frame), f"{summary}: {request!r:.2000}"
        findings = self.node.findings
        assert not findings, f"{findings[0]} after version {version} of {request!r:.2000}"

    def send_any(self) -> None:
        """Sends a request of a random API, except APIs that remove the node from its cluster."""
        while (api := self._random.choice(APIS))[0] in ENDS_SERVICE:
            pass
        self.send(api[0], at_controller=api[1])

    def check_service(self) -> None:
        """Checks that the node still answers other clients."""
        assert self.node.ask(ApiKey.API_VERSIONS, 0, ApiVersionsRequest()).error_code == 0
        assert self.node.ask(ApiKey.METADATA, 12, MetadataRequest(topics=[])).brokers is not None
        assert self.node.findings == []


def _may_wait(request: Message) -> bool:
    """True if the request asks for a wait, or waits for another request that never comes."""
    waits = {
        ApiKey.FETCH,
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.ENVELOPE,
    }
    longest = max((value for name, value in _times(request)), default=0)
    return ApiKey(request.API_KEY) in waits or longest > WAIT_SECONDS_MAX * 1000


def _times(request: Message) -> list[tuple[str, int]]:
    return [
        (name, getattr(request, name))
        for name in request.__slots__
        if name.endswith("_ms") and isinstance(getattr(request, name), int)
    ]


def name_of(api: tuple[int, bool]) -> str:
    return f"{'controller' if api[1] else 'broker'}-{API_SPECS[ApiKey(api[0])].name}"
