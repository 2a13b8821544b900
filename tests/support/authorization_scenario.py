"""The requests of every API under many sets of ACLs, and their answers, field by field.

The same requests go to Apache Kafka (`tests/data/make_authorization_answers.py` keeps its answers) and to Ottla. The
client connects to its own listeners, nodes and super users to others; a listener determines the principal. Values that
do not depend on rights (offsets, times, sizes, messages) are blanked out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from itertools import chain
from typing import Any, NamedTuple

from ottla.model.access import CLUSTER_NAME, SUPPORTED_OPERATIONS, Operation, PatternType, Permission, ResourceType
from ottla.model.ids import Uuid
from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.wire.api import API_SPECS, ApiSpec
from ottla.wire.message import Structure
from ottla.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.wire.messages.describe_acls import DescribeAclsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.support.authorization_of_switched_off import switched_off_questions
from tests.support.authorization_requests import ABSENT_ID, Question, questions
from tests.support.raw_client import ConnectionClosed, RawClient

__all__ = ["LISTENERS", "SETTINGS", "Places", "play", "play_forwarded"]

CLIENT = "User:client"
LISTENERS = ("NODES", "CLIENTS", "CONTROLLER", "CONTROLLERFORCLIENTS")
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:node",
    "inter.broker.listener.name": "NODES",
    "controller.listener.names": "CONTROLLER,CONTROLLERFORCLIENTS",
    "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in LISTENERS),
    "group.consumer.max.session.timeout.ms": "3600000",
    "group.consumer.session.timeout.ms": "3600000",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "auto.create.topics.enable": "true",
}
_GIVEN = {
    ResourceType.TOPIC: ("topic", "missing"),
    ResourceType.GROUP: ("group", "modern", "lost"),
    ResourceType.CLUSTER: (CLUSTER_NAME,),
    ResourceType.TRANSACTIONAL_ID: ("tx",),
}
# Newer versions than those of Apache Kafka 4.3.
_LAST_OF_4_3 = {28: 5, 42: 2, 88: 0, 89: 0}
_EVERY_ACL: dict[str, Any] = {
    "resource_type_filter": ResourceType.ANY,
    "resource_name_filter": None,
    "pattern_type_filter": PatternType.ANY,
    "principal_filter": None,
    "host_filter": None,
    "operation": Operation.ANY,
    "permission_type": Permission.ANY,
}
_ENDS = ListOffsetsRequest(
    topics=[
        ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
        for name in ("topic", "other")
    ]
)


class Places(NamedTuple):
    """The addresses of the listeners for nodes and for the client, of a broker and of a controller."""

    nodes: str
    clients: str
    controller: str
    controller_for_clients: str

    @property
    def listeners(self) -> str:
        return ",".join(f"{name}://{address}" for name, address in zip(LISTENERS, self, strict=True))


class _Rule(NamedTuple):
    kind: ResourceType
    operation: Operation
    permission: Permission = Permission.ALLOW
    pattern: PatternType = PatternType.LITERAL
    host: str = "*"
    principal: str = CLIENT
    names: tuple[str, ...] | None = None

    def acls(self) -> Iterator[AclCreation]:
        for name in self.names or _GIVEN[self.kind]:
            yield AclCreation(
                resource_type=self.kind,
                resource_name=name,
                resource_pattern_type=self.pattern,
                principal=self.principal,
                host=self.host,
                operation=self.operation,
                permission_type=self.permission,
            )


def _sets() -> Iterator[tuple[str, list[_Rule]]]:
    everything = [_Rule(kind, Operation.ALL) for kind in _GIVEN]
    yield "nothing", []
    yield "everything", everything
    for kind in _GIVEN:
        yield f"ALL on {kind.name}", [_Rule(kind, Operation.ALL)]
        for operation in SUPPORTED_OPERATIONS[kind]:
            yield f"{operation.name} on {kind.name}", [_Rule(kind, operation)]
            denied = _Rule(kind, operation, Permission.DENY)
            yield f"everything but {operation.name} on {kind.name}", [*everything, denied]
    yield "everything but ALL on TOPIC", [*everything, _Rule(ResourceType.TOPIC, Operation.ALL, Permission.DENY)]
    for kind in (ResourceType.TOPIC, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID):
        wildcard = _Rule(kind, Operation.ALL, names=("*",))
        yield f"ALL on every {kind.name}", [wildcard]
        start = {ResourceType.TOPIC: "to", ResourceType.GROUP: "gr", ResourceType.TRANSACTIONAL_ID: "t"}[kind]
        yield (
            f"ALL on {kind.name} by prefix",
            [_Rule(kind, Operation.ALL, pattern=PatternType.PREFIXED, names=(start,))],
        )
        denied = _Rule(kind, Operation.ALL, Permission.DENY, PatternType.PREFIXED, names=(start,))
        yield f"ALL on every {kind.name} but a prefix", [wildcard, denied]
    yield "everything for all users", [rule._replace(principal="User:*") for rule in everything]
    yield "everything for another user", [rule._replace(principal="User:nobody") for rule in everything]
    yield "everything from another host", [rule._replace(host="10.9.8.7") for rule in everything]
    yield "everything from this host", [rule._replace(host="127.0.0.1") for rule in everything]
    yield "super user", []


def play(places: Places) -> dict[str, Any]:
    """The distinct answers to every question, and the index of the answer for every set of ACLs."""
    player = _Player(places)
    try:
        return player.play()
    finally:
        player.close()


def play_forwarded(places: Places, apis: Collection[int]) -> dict[str, Any]:
    """As `play`, for questions to a broker that forwards the requests of these APIs."""
    player = _Player(places)
    try:
        player.make_topics()
        player.play_questions(
            lambda question: not question.at_controller and _spec(question).key in apis,
        )
        return player.answers
    finally:
        player.close()


class _Player:
    def __init__(self, places: Places) -> None:
        self.places = places
        self.node = RawClient(places.nodes)
        self.ids: dict[str, Uuid] = {}
        self.records = bytes(build_batch([Record(value=b"x", timestamp=1_700_000_000_000)]))
        self.transactional = bytes(
            build_batch(
                [Record(value=b"x", timestamp=1_700_000_000_000)],
                producer_id=7,
                producer_epoch=0,
                base_sequence=0,
                is_transactional=True,
            )
        )
        self.answers: dict[str, dict[str, Any]] = {}
        self.clients: dict[str, RawClient] = {}

    def play(self) -> dict[str, Any]:
        self.prepare()
        self.play_questions(lambda question: True)
        return {label: {"answers": noted["answers"], "sets": noted["sets"]} for label, noted in self.answers.items()}

    def play_questions(self, is_wanted: Callable[[Question], bool]) -> None:
        for name, rules in _sets():
            self.give(rules)
            by_id = [*(self.ids[topic] for topic in ("topic", "other")), ABSENT_ID]
            for question in chain(switched_off_questions(by_id), questions(self.ids, self.records, self.transactional)):
                if is_wanted(question) and (question.only is None or name in question.only):
                    self.ask(name, question)

    def close(self) -> None:
        for client in (self.node, *self.clients.values()):
            client.close()

    # -- the cluster -----------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        self.make_topics()
        for kind, key in ((0, "group"), (1, "tx")):
            self.until(lambda kind=kind, key=key: self._coordinator(kind, key) == 0)
        for group in ("group", "rival"):
            commit = OffsetCommitRequest(
                group_id=group,
                generation_id_or_member_epoch=-1,
                topics=[
                    OffsetCommitRequestTopic(
                        name=name, partitions=[OffsetCommitRequestPartition(committed_metadata="")]
                    )
                    for name in ("topic", "other")
                ],
            )
            self.until(lambda commit=commit: not _codes(self.node.call(commit, 9)))
        member = ConsumerGroupHeartbeatRequest(
            group_id="modern",
            member_id="bWVtYmVyLW9mLWdyb3Vw",
            member_epoch=0,
            rebalance_timeout_ms=3_600_000,
            subscribed_topic_names=["topic", "other"],
            topic_partitions=[],
        )
        self.until(lambda: self.node.call(member, 1).error_code == 0)
        for name in ("tx", "rival-tx"):
            self._begin(name)

    def _begin(self, transactional_id: str) -> None:
        """Begins a transaction with a partition of every topic."""
        init = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=600_000)
        answer: Any = None

        def started() -> bool:
            nonlocal answer
            answer = self.node.call(init, 4)
            return bool(answer.error_code == 0)

        self.until(started)
        add = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=answer.producer_id,
            v3_and_below_producer_epoch=answer.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=[0]) for name in ("topic", "other")],
        )
        self.until(lambda: not _codes(self.node.call(add, 3)))

    def _coordinator(self, kind: int, key: str) -> int:
        answer = self.node.call(FindCoordinatorRequest(key_type=kind, coordinator_keys=[key]), 4)
        code: int = answer.coordinators[0].error_code
        return code

    def make_topics(self) -> None:
        """Creates `topic` and `other` if they are missing."""
        topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("topic", "other")]
        self.node.call(CreateTopicsRequest(topics=topics, timeout_ms=5000), 7)
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in ("topic", "other")])

        brokers = 0

        def has_leaders() -> bool:
            nonlocal brokers
            answer = self.node.call(request, 12)
            brokers = len(answer.brokers)
            self.ids = {topic.name: topic.topic_id for topic in answer.topics}
            return all(topic.partitions and topic.partitions[0].leader_id >= 0 for topic in answer.topics)

        self.until(has_leaders)
        if brokers == 1:
            # The metadata may name a leader before the leader knows it, which takes longest if a topic of this name has
            # just been deleted. With more brokers, no question goes to the leader.
            self.until(lambda: not _codes(self.node.call(_ENDS, 7)))

    def give(self, rules: list[_Rule]) -> None:
        """Replaces all ACLs. The answer to DescribeAcls shows when the authorizer has them."""
        everything = DeleteAclsFilter(**_EVERY_ACL)
        assert not _codes(self.node.call(DeleteAclsRequest(filters=[everything]), 3))
        acls = [acl for rule in rules for acl in rule.acls()]
        if acls:
            assert not _codes(self.node.call(CreateAclsRequest(creations=acls), 3))
        request = DescribeAclsRequest(**_EVERY_ACL)
        self.until(lambda: sum(len(resource.acls) for resource in self.node.call(request, 3).resources) == len(acls))

    def until(self, condition: Any) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, "the cluster does not get ready"
            time.sleep(0.01)

    # -- questions -------------------------------------------------------------------------------------------------

    def ask(self, name: str, question: Question) -> None:
        spec = _spec(question)
        last = min(question.last, _LAST_OF_4_3.get(spec.key, spec.request_max_version), spec.request_max_version)
        versions = range(question.first, last + 1) if name in ("nothing", "everything") else (last,)
        for version in versions:
            self.note(name, f"{question.label}, version {version}", self.answer(name, question, version))
            if question.changes_topics:
                self.make_topics()

    def answer(self, name: str, question: Question, version: int) -> Any:
        places = self.places
        if name == "super user":
            address = places.controller if question.at_controller else places.nodes
        else:
            address = places.controller_for_clients if question.at_controller else places.clients
        client = self.clients.get(address)
        if client is None:
            client = self.clients[address] = RawClient(address)
        try:
            answer = client.call(question.request(), version)
        except ConnectionClosed:
            self.clients.pop(address).close()
            return "closed"
        return self.plain(answer, "")

    def note(self, name: str, label: str, answer: Any) -> None:
        noted = self.answers.setdefault(label, {"answers": [], "sets": {}})
        if answer not in noted["answers"]:
            noted["answers"].append(answer)
        noted["sets"][name] = noted["answers"].index(answer)

    def plain(self, value: Any, name: str) -> Any:
        if isinstance(value, Structure):
            plain = {slot: self.plain(getattr(value, slot), slot) for slot in value.__slots__ if slot not in _BLANK}
            if plain.get("error_code") not in _REFUSALS:
                # Other tests compare the messages of other errors.
                plain.pop("error_message", None)
            return plain
        if isinstance(value, Uuid):
            names = {topic_id: f"id of {topic}" for topic, topic_id in self.ids.items()}
            return {Uuid.ZERO: "no id", ABSENT_ID: "absent id", **names}.get(value, "id")
        if isinstance(value, list):
            # No list has a significant order.
            return sorted((self.plain(element, name) for element in value), key=repr)
        if isinstance(value, bytes | bytearray | memoryview):
            return "bytes" if len(value) else ""
        if name in _SAID:
            return "said" if value else value
        return value


def _spec(question: Question) -> ApiSpec:
    return next(spec for spec in API_SPECS.values() if spec.name == question.api)


def _codes(response: Any) -> list[int]:
    """All errors in a response."""
    codes: list[int] = []

    def look(value: Any) -> None:
        if isinstance(value, Structure):
            for slot in value.__slots__:
                if slot == "error_code" and getattr(value, slot):
                    codes.append(getattr(value, slot))
                look(getattr(value, slot))
        elif isinstance(value, list):
            for element in value:
                look(element)

    look(response)
    return codes


# TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID and DELEGATION_TOKEN_AUTHORIZATION_FAILED.
_REFUSALS = (29, 30, 31, 53, 65)
_SAID = frozenset({"error_message", "documentation"})
# Fields whose values differ between clusters for the same answer.
_BLANK = frozenset(
    {
        "unknown_tagged",
        "throttle_time_ms",
        "base_offset",
        "log_append_time_ms",
        "log_start_offset",
        "high_watermark",
        "last_stable_offset",
        "aborted_transactions",
        "low_watermark",
        "offset",
        "end_offset",
        "timestamp",
        "leader_epoch",
        "current_leader",
        "diverging_epoch",
        "snapshot_id",
        "session_id",
        "producer_id",
        "producer_epoch",
        "active_producers",
        "transaction_start_time_ms",
        "transaction_timeout_ms",
        "port",
        "host",
        "cluster_id",
        "controller_id",
        "log_end_offset",
        "last_fetch_timestamp",
        "last_caught_up_timestamp",
        "current_voters",
        "observers",
        "nodes",
        "node_endpoints",
        "brokers",
        "total_bytes",
        "usable_bytes",
        "is_cordoned",
        "partition_size",
        "offset_lag",
        "log_dir",
        "value",
        "synonyms",
        "records",
        "heartbeat_interval_ms",
        "topic_config_error_code",
        "producer_id_start",
        "producer_id_len",
        "leader_id",
    }
)
