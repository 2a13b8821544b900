"""The work for a request is proportional to its length, for every API and every array in it.

Every array of every request is grown from a thousand elements to sixteen thousand, and the CPU time per element may not
grow. `value in a_list` for each element would make it sixteen times as long. Requests are sent three times: with
different elements, of which only the first exists; with the same existing element again and again; and with an existing
element before the same unknown element again and again.

No turn of the loop takes longer than 50 ms, in which the requests of other clients would wait.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from math import inf
from typing import Any, NamedTuple

import pytest

from ottla.broker.apis import CONTROLLER_HANDLERS, HANDLERS, load
from ottla.model.ids import Uuid
from ottla.wire.api import API_SPECS, ApiKey
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.schema import FieldSpec, fields_at
from tests.support.lone_node import LoneNode, frame_of
from tests.support.reference import TURN_MAX, reference_seconds

FEW, MANY = 1_000, 16_000
# Measured times per element vary by a third, and caches are less useful for long lists. A quadratic part that is as
# large as the linear one at FEW elements makes it eight times as long.
GROWTH_MAX = 4.0
# Another process on the same core spoils a measurement; only a defect spoils all of them.
ATTEMPTS = 10
# The longest requests take 6 references alone, and up to 10 beside other processes: the reference fits into the
# processor's caches, thousands of offsets do not.
BUSY_TURN_MAX = 1.5 * TURN_MAX
INT8_MAX = 127

TOPIC, GROUP, TRANSACTIONAL_ID = "t", "g", "x"
PARTITIONS = 4

# How many elements of a grown array differ; None for all. The last of them is repeated.
DISTINCT = {"different": None, "repeated": 1, "refused": 2}

Path = tuple[str, ...]


class Case(NamedTuple):
    api_key: int
    version: int
    path: Path
    at_controller: bool

    def __str__(self) -> str:
        where = "controller" if self.at_controller else "broker"
        return f"{where}-{API_SPECS[ApiKey(self.api_key)].name}-{self.version}-{'.'.join(self.path)}"


# APIs without a case, and why.
WITHOUT_ARRAYS = {
    "AddOffsetsToTxn",
    "AllocateProducerIds",
    "ApiVersions",
    "DescribeAcls",
    "DescribeCluster",
    "EndTxn",
    "Envelope",
    "ExpireDelegationToken",
    "Heartbeat",
    "InitProducerId",
    "RemoveRaftVoter",
    "RenewDelegationToken",
    "UnregisterBroker",
}
EXEMPT = {
    **dict.fromkeys(WITHOUT_ARRAYS, "the request has no array"),
}

# The versions before the newest one that have arrays of their own.
OLDER_VERSIONS = {
    ApiKey.OFFSET_FETCH: (7,),
    ApiKey.ADD_PARTITIONS_TO_TXN: (3,),
    ApiKey.DELETE_TOPICS: (5,),
    ApiKey.JOIN_GROUP: (3,),
    ApiKey.PRODUCE: (12,),
    ApiKey.FETCH: (12,),
    ApiKey.OFFSET_COMMIT: (9,),
    ApiKey.TXN_OFFSET_COMMIT: (5,),
    ApiKey.METADATA: (9,),
    ApiKey.LEAVE_GROUP: (3,),
}


def arrays_of(structure: Any, version: int, prefix: Path = ()) -> Iterator[Path]:
    for field in fields_at(structure, version):
        if field.present and field.is_array:
            yield (*prefix, field.name)
        if field.present and field.structure is not None:
            yield from arrays_of(field.structure, version, (*prefix, field.name))


def cases() -> Iterator[Case]:
    for at_controller, table in ((False, HANDLERS), (True, CONTROLLER_HANDLERS)):
        for api_key, handler in sorted(table.items()):
            spec = API_SPECS[ApiKey(api_key)]
            # A broker hands a forwarded request to the same code of the controller.
            if handler.module == "switched_off" or (at_controller and HANDLERS.get(api_key) == handler):
                continue
            newest = min(handler.max_version, spec.request_class.VERSIONS[1])
            for version in (newest, *OLDER_VERSIONS.get(ApiKey(api_key), ())):
                for path in arrays_of(spec.request_class, version):
                    yield Case(api_key, version, path, at_controller)


# Valid values of fields, by name, so that requests are not refused as a whole.
KNOWN = {
    "acks": 1,
    "broker_id": 1,
    "count": PARTITIONS + 1,
    "coordinator_keys": GROUP,
    "entity_type": "client-id",
    "feature": "group.version",
    "generation_id_or_member_epoch": -1,
    "groups": GROUP,
    "groups_names": "doomed",
    "group_ids": GROUP,
    "group_id": GROUP,
    "key": "consumer_byte_rate",
    "log_dir": "/data",
    "max_version_level": 1,
    "upgrade_type": 1,
    "mechanism": 1,
    "iterations": 4096,
    "name": TOPIC,
    "num_partitions": -1,
    "operation": 3,
    "path": "/data",
    "pattern_type_filter": 3,
    "permission_type": 3,
    "principal": "User:someone",
    "protocol_type": "consumer",
    "rebalance_timeout_ms": 60_000,
    "replication_factor": -1,
    "resource_name": TOPIC,
    "resource_pattern_type": 3,
    "resource_type": 2,
    "resource_type_filter": 2,
    "session_timeout_ms": 30_000,
    "states_filter": "Empty",
    "state_filters": "Empty",
    "timeout_ms": 1_000,
    "topic": TOPIC,
    "topic_name": TOPIC,
    "topic_names": "doomed",
    "transactional_id": TRANSACTIONAL_ID,
    "transactional_ids": TRANSACTIONAL_ID,
    "types_filter": "classic",
    "v3_and_below_transactional_id": TRANSACTIONAL_ID,
    "validate_only": True,
}


class World:
    """A node with a topic, a group and a transactional id."""

    def __init__(self) -> None:
        self.node = LoneNode()
        ask = self.node.ask
        topic = CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
        assert ask(19, 7, CreateTopicsRequest(topics=[topic])).topics[0].error_code == 0
        metadata = ask(3, 12, MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]))
        self.topic_id: Uuid = metadata.topics[0].topic_id
        for key_type, key in ((0, GROUP), (1, TRANSACTIONAL_ID)):
            answer = ask(10, 4, FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]))
            assert answer.coordinators[0].error_code == 0
        partitions = [OffsetCommitRequestPartition(partition_index=0, committed_offset=1)]
        commit = OffsetCommitRequest(
            group_id=GROUP, topics=[OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)]
        )
        assert ask(8, 8, commit).topics[0].partitions[0].error_code == 0
        producer = ask(22, 4, InitProducerIdRequest(transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=60_000))
        broker = self.node.broker.metadata.image.brokers[1]
        self.known: dict[str, Any] = {
            **KNOWN,
            "broker_epoch": broker.broker_epoch,
            "cluster_id": self.node.broker.cluster_id,
            "producer_epoch": producer.producer_epoch,
            "producer_id": producer.producer_id,
            "id": Uuid((1 << 64).to_bytes(16, "big")),
            "topic_id": self.topic_id,
            "v3_and_below_producer_epoch": producer.producer_epoch,
            "v3_and_below_producer_id": producer.producer_id,
        }


@pytest.fixture(scope="module")
def world() -> World:
    return World()


def filled(
    structure: Any, case: Case, count: int, known: Mapping[str, Any], *, kind: str, path: Path = (), number: int = 0
) -> Any:
    """A message whose array at `case.path` has `count` elements; every other array has one."""
    message = structure()
    for field in fields_of(structure, case.version):
        here = (*path, field.name)
        if field.is_array:
            is_grown = here == case.path
            numbers = range(DISTINCT[kind] or count) if is_grown else (number,)
            elements = [element_of(field, case, count, known, kind=kind, path=here, number=own) for own in numbers]
            elements += elements[-1:] * (count - len(elements) if is_grown else 0)
            setattr(message, field.name, elements)
        elif field.name in known and field.structure is None:
            value = known[field.name]
            setattr(message, field.name, value if isinstance(value, int) else distinct_value(value, number))
        elif field.name in ("partition_index", "partition_id", "partition"):
            setattr(message, field.name, number)
        elif field.kind in ("string", "classic_string") and not field.nullable:
            setattr(message, field.name, distinct_value("s", number))
    return message


def element_of(
    field: FieldSpec, case: Case, count: int, known: Mapping[str, Any], *, kind: str, path: Path, number: int
) -> Any:
    if field.structure is not None:
        return filled(field.structure, case, count, known, kind=kind, path=path, number=number)
    element = distinct_value(known.get(field.name, plain_value(field)), number)
    return element % INT8_MAX if field.code == "b" else element


@cache
def fields_of(structure: Any, version: int) -> list[FieldSpec]:
    return [field for field in fields_at(structure, version) if field.present]


def distinct_value(value: Any, number: int) -> Any:
    """The value itself for number 0; a different value for every other number."""
    if number == 0:
        return value
    if isinstance(value, str):
        return f"{value}{number}"
    return Uuid(number.to_bytes(16, "big")) if isinstance(value, Uuid) else value + number


def plain_value(field: FieldSpec) -> Any:
    if field.kind == "uuid":
        return Uuid((1 << 64).to_bytes(16, "big"))
    return "s" if field.kind in ("string", "classic_string") else 0


@pytest.mark.parametrize("kind", DISTINCT)
@pytest.mark.parametrize("case", list(cases()), ids=str)
def test_work_grows_with_the_length_of_a_request(world: World, case: Case, kind: str) -> None:
    request_class = API_SPECS[ApiKey(case.api_key)].request_class
    few_elements, many_elements = (
        frame_of(case.api_key, case.version, filled(request_class, case, count, world.known, kind=kind))
        for count in (FEW, MANY)
    )
    growth = turn = inf
    # The first request pays for compiled codecs.
    world.node.send(few_elements, at_controller=case.at_controller)
    for _ in range(ATTEMPTS):
        few = world.node.send(few_elements, at_controller=case.at_controller)
        many = world.node.send(many_elements, at_controller=case.at_controller)
        growth = min(growth, many.cpu_seconds / MANY / (few.cpu_seconds / FEW))
        turn = min(turn, many.blocked_seconds / reference_seconds())
        if growth <= GROWTH_MAX and turn <= TURN_MAX:
            break
    assert growth <= GROWTH_MAX, f"the CPU time of an element grows by a factor of {growth:.1f}"
    assert turn <= TURN_MAX, f"a turn takes {turn:.0f} references"
    assert world.node.findings == []


def limited_cases() -> Iterator[Any]:
    """Cases of APIs that handle a request as a whole, and have a limit of elements.

    The second value is how many elements of the grown array make a request as long as the limit allows. The requests of
    `test_work_grows_with_the_length_of_a_request` are refused if they are longer.
    """
    for case in cases():
        table = CONTROLLER_HANDLERS if case.at_controller else HANDLERS
        api = load(case.api_key, table[case.api_key])
        limit = api.elements_max
        if limit is None or any(not portions.refuses_only for portions in api.portions):
            continue
        arrays = list(arrays_of(API_SPECS[ApiKey(case.api_key)].request_class, case.version))
        grown = [path for path in arrays if path[: len(case.path)] == case.path]
        count = (limit - (len(arrays) - len(grown))) // len(grown)
        if count > FEW:
            yield pytest.param(case, count, id=str(case))


@pytest.mark.parametrize("kind", DISTINCT)
@pytest.mark.parametrize(("case", "count"), list(limited_cases()))
def test_a_request_of_the_greatest_length_does_not_block_the_loop(
    world: World, case: Case, count: int, kind: str
) -> None:
    request_class = API_SPECS[ApiKey(case.api_key)].request_class
    request = filled(request_class, case, count, world.known, kind=kind)
    frame = frame_of(case.api_key, case.version, request)
    world.node.send(frame, at_controller=case.at_controller)
    turn = inf
    for _ in range(ATTEMPTS):
        answer = world.node.send(frame, at_controller=case.at_controller)
        turn = min(turn, answer.blocked_seconds / reference_seconds())
        if turn <= BUSY_TURN_MAX:
            break
    assert turn <= BUSY_TURN_MAX, f"a turn takes {turn:.0f} references"
    assert world.node.findings == []


def test_every_api_is_grown_or_exempt() -> None:
    served = {
        API_SPECS[ApiKey(api_key)].name
        for table in (HANDLERS, CONTROLLER_HANDLERS)
        for api_key, handler in table.items()
        if handler.module != "switched_off"
    }
    grown = {API_SPECS[ApiKey(case.api_key)].name for case in cases()}
    assert served - grown == set(EXEMPT)
