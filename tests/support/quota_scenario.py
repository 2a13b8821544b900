"""Quotas that are set, described and enforced: the same requests to Apache Kafka (`tests/data/make_quota_answers.py`)
and to Ottla.

The first request of a client that exceeds its quota is throttled for a time that depends only on its size, so this
time can be compared to the millisecond. A throttled client uses a connection for a single request, because that
connection is muted later. Messages become "said", because Ottla has its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.wire.message import Message, Structure
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, OpData, RequestEntryData
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.raw_client import RawClient

__all__ = ["play"]

TOPIC = "quotas"
EXACT, DEFAULT, ANY = 0, 1, 2

Entity = dict[str, str | None]
Changes = dict[str, float | None]

REFUSED: dict[str, tuple[Entity, Changes]] = {
    "nobody": ({}, {"producer_byte_rate": 1.0}),
    "an empty user": ({"user": ""}, {"producer_byte_rate": 1.0}),
    "an empty client": ({"client-id": ""}, {"producer_byte_rate": 1.0}),
    "an empty kind": ({"": "x"}, {"producer_byte_rate": 1.0}),
    "another kind": ({"planet": "x"}, {"producer_byte_rate": 1.0}),
    "a user and an address": ({"user": "u", "ip": "192.0.2.1"}, {"connection_creation_rate": 1.0}),
    "a client and an address": ({"client-id": "c", "ip": "192.0.2.1"}, {"connection_creation_rate": 1.0}),
    "no address": ({"ip": "no such address"}, {"connection_creation_rate": 1.0}),
    "another key": ({"user": "u"}, {"consumer_bytes_rate": 1.0}),
    "a key of addresses": ({"user": "u"}, {"connection_creation_rate": 1.0}),
    "a key of users": ({"ip": "192.0.2.1"}, {"producer_byte_rate": 1.0}),
    "a part of a byte": ({"user": "u"}, {"producer_byte_rate": 1.5}),
    "a part of a connection": ({"ip": "192.0.2.1"}, {"connection_creation_rate": 1.5}),
    "nothing": ({"user": "u"}, {"producer_byte_rate": 0.0}),
    "less than nothing": ({"user": "u"}, {"request_percentage": -1.0}),
    "more than a number holds": ({"ip": "192.0.2.1"}, {"connection_creation_rate": 3e9}),
    "one of two": ({"user": "u"}, {"producer_byte_rate": 1.0, "planets": 1.0}),
}

ACCEPTED: dict[str, tuple[Entity, Changes]] = {
    "a user": ({"user": "alice"}, {"producer_byte_rate": 1e6, "consumer_byte_rate": 2e6}),
    "a user's clients": ({"user": "alice", "client-id": None}, {"request_percentage": 12.5}),
    "a user's client": ({"client-id": "one", "user": "alice"}, {"controller_mutation_rate": 0.5}),
    "everybody's client": ({"user": None, "client-id": "one"}, {"request_percentage": 200.0}),
    "a strange name": ({"user": "CN=a b,O=%/<default>"}, {"request_percentage": 50.0}),
    "an address": ({"ip": "192.0.2.1"}, {"connection_creation_rate": 5.0}),
    "an address of many groups": ({"ip": "2001:db8::7"}, {"connection_creation_rate": 6.0}),
    "all addresses": ({"ip": None}, {"connection_creation_rate": 1000.0}),
    "again": ({"user": "alice"}, {"producer_byte_rate": 1e6, "request_percentage": None}),
    "one less": ({"user": "alice"}, {"consumer_byte_rate": None}),
    "something that is not set": ({"user": "bob"}, {"consumer_byte_rate": None}),
    "an unknown key that is not set": ({"user": "bob"}, {"planets": None}),
}

FILTERS: dict[str, tuple[list[tuple[str, int, str | None]], bool]] = {
    "all": ([], False),
    "nothing else than nothing": ([], True),
    "a user": ([("user", EXACT, "alice")], False),
    "a user alone": ([("user", EXACT, "alice")], True),
    "a user and clients": ([("user", EXACT, "alice"), ("client-id", ANY, None)], True),
    "the default client of a user": ([("user", EXACT, "alice"), ("client-id", DEFAULT, None)], True),
    "the default user": ([("user", DEFAULT, None)], False),
    "addresses": ([("ip", ANY, None)], True),
    "the default address": ([("ip", DEFAULT, None)], True),
    "an unknown user": ([("user", EXACT, "nobody")], False),
    "no kind": ([("", ANY, None)], False),
    "another kind": ([("planet", ANY, None)], False),
    "a kind twice": ([("user", ANY, None), ("user", DEFAULT, None)], False),
    "an address and a user": ([("ip", ANY, None), ("user", ANY, None)], False),
    "an exact match of nothing": ([("user", EXACT, None)], False),
    "a default with a name": ([("user", DEFAULT, "x")], False),
    "any with a name": ([("user", ANY, "x")], False),
    "another way": ([("user", 3, None)], False),
}

# From the least specific to the most specific entity; a separate client is throttled at every level.
LEVELS: list[Entity] = [
    {"client-id": None},
    {"client-id": "level-2"},
    {"user": None},
    {"user": None, "client-id": None},
    {"user": None, "client-id": "level-5"},
    {"user": "ANONYMOUS", "client-id": None},
    {"user": "ANONYMOUS", "client-id": "level-7"},
]


def play(bootstrap: str, settle: Callable[[], object] = lambda: None) -> dict[str, Any]:
    """Returns the answers by label, as plain values; `settle` waits until changed quotas are in force."""
    scenario = _Scenario(bootstrap, settle)
    scenario.set_and_show()
    scenario.feel_bytes()
    scenario.feel_levels()
    scenario.feel_changes_of_topics()
    return scenario.answers


class _Scenario:
    def __init__(self, bootstrap: str, settle: Callable[[], object]) -> None:
        self.bootstrap = bootstrap
        self.settle = settle
        self.answers: dict[str, Any] = {}

    def call(self, request: Message, version: int, *, client_id: str | None = "administrator") -> Any:
        with RawClient(self.bootstrap, client_id=client_id) as client:
            return client.call(request, version)

    def alter(self, entity: Entity, changes: Changes, *, version: int = 1, validate_only: bool = False) -> Any:
        entry = RequestEntryData(
            entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
            ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in changes.items()],
        )
        return self.call(AlterClientQuotasRequest(entries=[entry], validate_only=validate_only), version)

    def set_and_show(self) -> None:
        for version in (0, 1):
            for label, (entity, changes) in REFUSED.items():
                answer = self.alter(entity, changes, version=version)
                self.answers[f"set, {label}, version {version}"] = _plain(answer)
            for label, (entity, changes) in ACCEPTED.items():
                answer = self.alter(entity, changes, version=version, validate_only=True)
                self.answers[f"try, {label}, version {version}"] = _plain(answer)
        for label, (entity, changes) in ACCEPTED.items():
            self.answers[f"set, {label}"] = _plain(self.alter(entity, changes))
        self.settle()
        for version in (0, 1):
            for label, (components, strict) in FILTERS.items():
                request = DescribeClientQuotasRequest(
                    components=[
                        ComponentData(entity_type=kind, match_type=match_type, match=name)
                        for kind, match_type, name in components
                    ],
                    strict=strict,
                )
                self.answers[f"show, {label}, version {version}"] = _plain(self.call(request, version))
        for label, (entity, changes) in ACCEPTED.items():
            self.answers[f"remove, {label}"] = _plain(self.alter(entity, dict.fromkeys(changes)))

    def feel_bytes(self) -> None:
        topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
        self.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 7)
        for client_id in ("leader", "all", "old", "twice"):
            self.alter({"client-id": client_id}, {"producer_byte_rate": 1_000.0})
        for client_id in ("reader", "reader-of-large"):
            self.alter({"client-id": client_id}, {"consumer_byte_rate": 1_000.0})
        self.settle()
        self.answers["produce too much"] = self.produce("leader").throttle_time_ms
        self.answers["produce too much, acks=all"] = self.produce("all", acks=-1).throttle_time_ms
        self.answers["produce too much, version 3"] = self.produce("old", version=3).throttle_time_ms
        self.answers["produce what is allowed"] = self.produce("twice", size=9_000).throttle_time_ms
        self.answers["produce a little more"] = self.produce("twice", size=9_000).throttle_time_ms // 5_000
        self.answers["produce without a quota"] = self.produce("somebody").throttle_time_ms
        end_offset = 6
        for label, offset in (("a batch that is too large", 0), ("what is allowed", 3), ("more than is allowed", 4)):
            partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=9_500)
            request = FetchRequest(
                max_wait_ms=0,
                min_bytes=1,
                max_bytes=9_500,
                topics=[FetchTopic(topic=TOPIC, partitions=[partition])],
            )
            assert offset < end_offset
            answer = self.call(request, 11, client_id=f"reader{'' if offset else '-of-large'}")
            self.answers[f"fetch {label}"] = [
                answer.error_code,
                answer.throttle_time_ms > 0,
                len(answer.responses),
                answer.session_id == 0,
            ]

    def feel_levels(self) -> None:
        for number, entity in enumerate(LEVELS, 1):
            self.alter(entity, {"producer_byte_rate": 1_000.0 * number})
            self.settle()
            # Less specific levels have no effect any more.
            self.answers[f"level {number}"] = self.produce(f"level-{number}", size=100_000).throttle_time_ms
        self.answers["a client without an id"] = self.produce(None).throttle_time_ms // 5_000
        for entity in LEVELS:
            self.alter(entity, {"producer_byte_rate": None})
        self.settle()
        self.answers["no level"] = self.produce("level-2").throttle_time_ms

    def feel_changes_of_topics(self) -> None:
        self.alter({"client-id": "maker"}, {"controller_mutation_rate": 1.0})
        self.alter({"client-id": "old-maker"}, {"controller_mutation_rate": 1.0})
        self.settle()
        for client_id, version in (("maker", 7), ("old-maker", 5)):
            for name in ("first", "second"):
                topic = CreatableTopic(name=f"{client_id}-{name}", num_partitions=12, replication_factor=1)
                answer = self.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), version, client_id=client_id)
                self.answers[f"create {client_id}-{name}"] = [
                    answer.topics[0].error_code,
                    answer.throttle_time_ms // 5_000,
                ]
        extension = CreatePartitionsTopic(name="maker-first", count=13, assignments=None)
        extended = self.call(CreatePartitionsRequest(topics=[extension], timeout_ms=10_000), 3, client_id="maker")
        self.answers["more partitions"] = [extended.results[0].error_code, extended.throttle_time_ms > 0]
        deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name="maker-first")], timeout_ms=10_000)
        deleted = self.call(deletion, 6, client_id="maker")
        self.answers["delete"] = [deleted.responses[0].error_code, deleted.throttle_time_ms > 0]

    def produce(self, client_id: str | None, *, size: int = 60_000, acks: int = 1, version: int = 9) -> Any:
        records = build_batch([Record(value=b"x" * size, timestamp=1_700_000_000_000)])
        data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=memoryview(records))])
        request = ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[data])
        answer = self.call(request, version, client_id=client_id)
        assert answer.responses[0].partition_responses[0].error_code == 0
        return answer


def _plain(value: Any, name: str = "") -> Any:
    if isinstance(value, Structure):
        return {slot: _plain(getattr(value, slot), slot) for slot in value.__slots__}
    if isinstance(value, list):
        # The order of entities and their parts has no meaning.
        return sorted((_plain(element) for element in value), key=repr)
    if name == "error_message":
        return "said" if value else value
    return value
