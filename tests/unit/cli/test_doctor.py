"""Every check of the doctor reports nothing about a healthy cluster, and one finding with a valid command otherwise."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest

from ottla.cli.logic import doctor_checks as checks
from ottla.cli.logic import doctor_services as services
from ottla.cli.logic.doctor_config import examine_properties
from ottla.cli.logic.doctor_facts import ClusterFacts, FlowFacts, GroupFacts
from ottla.cli.logic.doctor_metrics import DamagedSegmentMetric, NodeMetrics, parse_node_metrics
from ottla.cli.logic.doctor_schemas import BreakingVersion, find_breaking_versions
from ottla.cli.logic.group_lag import GroupRow
from ottla.cli.logic.hanging import HangingTransaction
from ottla.cli.logic.local_files import mount_options
from ottla.cli.table import COMMANDS
from ottla.client.admin.groups import DescribedGroup, GroupMember
from ottla.client.admin.nodes import ClusterNode, Quorum, QuorumReplica
from ottla.client.admin.partitions import LogDirectory, OngoingReassignment, ReplicaInDirectory
from ottla.client.admin.topics import DescribedPartition, DescribedTopic
from ottla.client.admin.transactions import ProducerState
from ottla.mirror.flow import FlowLag
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition, Uuid
from ottla.serdes.registry_client import RegistryClient, SchemaText

ONE = TopicPartition("t", 0)


def partition(number: int, **changes: Any) -> DescribedPartition:
    order = [(number + step) % 3 + 1 for step in range(3)]
    described = DescribedPartition(
        partition=number, leader=order[0], leader_epoch=0, replicas=tuple(order), isr=tuple(order)
    )
    return dataclasses.replace(described, **changes)


def topic(*partitions: DescribedPartition) -> DescribedTopic:
    return DescribedTopic(name="t", topic_id=Uuid.ONE, is_internal=False, partitions=partitions)


def directory(**changes: Any) -> LogDirectory:
    log_directory = LogDirectory("/data", None, 1000, 500, {ONE: ReplicaInDirectory(100, 0, False)})
    return log_directory._replace(**changes)


def group(lag: int, *, members: int, moved: bool) -> GroupFacts:
    row = GroupRow("t", 0, 5, None, 5 + lag, lag, None, None, None)
    member = GroupMember(member_id="m", instance_id=None, client_id="c", host="h", assignment=(ONE,))
    described = DescribedGroup(
        group_id="g",
        state="Stable",
        type="Consumer",
        protocol_type="consumer",
        assignor="uniform",
        coordinator=1,
        members=(member,) * members,
    )
    return GroupFacts(group=described, before=[row._replace(current=4) if moved else row], after=[row])


def flow(name: str, before: int, after: int) -> FlowFacts:
    return FlowFacts(name=name, before=FlowLag(1, before, "t-0", before), after=FlowLag(1, after, "t-0", after))


def quorum(*ends: int) -> Quorum:
    voters = tuple(QuorumReplica(number, Uuid.ZERO, end, 0, 0) for number, end in enumerate(ends, start=1))
    return Quorum(1, 1, max(ends), voters, (), {})


def healthy() -> ClusterFacts:
    return ClusterFacts(
        brokers=[ClusterNode(number, "h", 9092, None, False) for number in (1, 2, 3)],
        topics=[topic(*[partition(number) for number in range(6)])],
        topic_settings={"t": {"min.insync.replicas": "2"}},
        broker_settings={number: {"listeners": "PLAINTEXT://10.0.0.1:9092"} for number in (1, 2, 3)},
        directories={number: [directory()] for number in (1, 2, 3)},
        groups=[group(0, members=1, moved=False), group(9, members=1, moved=True)],
        quorum=quorum(10, 10, 9),
    )


BREAKING = BreakingVersion("t-value", 2, 1, "a field has no default")
HANGING = HangingTransaction(ONE, ProducerState(7, 0, 0, 1, 1, 42))

TROUBLE: dict[str, tuple[dict[str, Any], str, str]] = {
    "fenced_brokers": (
        {"brokers": [ClusterNode(number, "h", 9092, None, number == 3) for number in (1, 2, 3)]},
        "wrong",
        "cluster unregister --id 3",
    ),
    "silent_brokers": ({"silent": [2]}, "wrong", "restart"),
    "partitions_without_leader": ({"topics": [topic(partition(0, leader=-1, isr=()))]}, "wrong", "elect-leaders"),
    "partitions_under_min_isr": ({"topics": [topic(partition(0, isr=(1,)))]}, "wrong", "--under-min-isr-partitions"),
    "partitions_under_replicated": (
        {"topics": [topic(partition(0, isr=(1, 2)))]},
        "wrong",
        "--under-replicated-partitions",
    ),
    "offline_directories": (
        {"directories": {1: [directory(error=KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, ""))]}},
        "wrong",
        "ottla log-dirs",
    ),
    "damaged_segments": (
        {"metrics": {2: NodeMetrics([DamagedSegmentMetric("t", 0, 42)], {}, 0, 0)}},
        "wrong",
        "broker 2 repairs it",
    ),
    "certificates_that_end": (
        {"metrics": {2: NodeMetrics([], {"CLIENTS": 1_000.0}, 0, 0)}, "now_seconds": 1_001.0},
        "wrong",
        "write a new key store",
    ),
    "logins_that_fail": ({"metrics": {2: NodeMetrics([], {}, 40, 3)}}, "risk", "ottla audit --stream authentication"),
    "schemas_that_break_consumers": (
        {"breaking_versions": [BREAKING]},
        "risk",
        "ottla schemas delete t-value --version 2",
    ),
    "mirrors_behind": (
        {"heartbeats": {("a", "b"): 1_000_000, ("b", "a"): 1_050_000}, "now_seconds": 1_100.0},
        "wrong",
        "ottla mirror status FILE",
    ),
    "mirrors_too_slow": (
        {"flows": [flow("a->b", 10, 10), flow("b->a", 10, 9), flow("a->c", 0, 0)]},
        "wrong",
        "ottla.bytes.per.second",
    ),
    "disks_nearly_full": ({"directories": {1: [directory(usable_bytes=50)]}}, "wrong", "configs alter --topic t"),
    "groups_stuck": ({"groups": [group(9, members=2, moved=False)]}, "wrong", "groups reset-offsets g"),
    "hanging_transactions": ({"hanging": [HANGING]}, "wrong", "--topic t --partition 0 --start-offset 42"),
    "quorum_health": ({"quorum": quorum(5_000, 5_000, 1)}, "wrong", "quorum describe --replication"),
    "replication_too_low": ({"topic_settings": {"t": {"min.insync.replicas": "3"}}}, "risk", "min.insync.replicas=2"),
    "leaders_skewed": (
        {"topics": [topic(*[partition(number, leader=1) for number in range(6)])]},
        "risk",
        "elect-leaders --all-topic-partitions",
    ),
    "open_listeners": ({"broker_settings": {1: {"listeners": "PLAINTEXT://:9092"}}}, "risk", "listeners"),
    "risky_settings": (
        {"broker_settings": {1: {"unclean.leader.election.enable": "true"}}},
        "risk",
        "configs alter --broker-defaults",
    ),
    "data_in_temporary_place": ({"directories": {1: [directory(path="/tmp")]}}, "risk", "log.dirs"),
    "clock_skew": ({"clock_skew_ms": -5_000}, "risk", "chrony"),
    "reassignments_running": (
        {"moving": {ONE: OngoingReassignment((1, 2), (2,), (1,))}},
        "hint",
        "ottla reassign list",
    ),
}


def test_brokers_are_listed_as_in_a_sentence() -> None:
    facts = dataclasses.replace(
        healthy(), directories={broker: [directory(path=f"/tmp/{broker}")] for broker in (2, 3, 1)}
    )
    assert [finding.what for finding in checks.data_in_temporary_place(facts)] == [
        "Brokers 1, 2 and 3 keep their data in /tmp, which a restart may empty."
    ]


def test_a_healthy_cluster_is_left_alone() -> None:
    assert checks.examine(healthy()) == []


def test_every_check_has_its_trouble() -> None:
    assert [check.__name__ for check in checks.CLUSTER_CHECKS] == sorted(
        TROUBLE, key=[check.__name__ for check in checks.CLUSTER_CHECKS].index
    )


@pytest.mark.parametrize("name", TROUBLE)
def test_one_trouble_is_found(name: str) -> None:
    changes, severity, fix = TROUBLE[name]
    findings = list(getattr(checks, name)(dataclasses.replace(healthy(), **changes)))
    assert len(findings) == 1
    assert findings[0].severity == severity
    assert fix in findings[0].fix
    for command in re.findall(r"ottla ([\w-]+)", findings[0].fix):
        assert command in COMMANDS


def test_what_is_left_behind() -> None:
    idle = dataclasses.replace(healthy(), groups=[group(9, members=0, moved=False)])
    assert "groups delete g" in next(checks.groups_stuck(idle)).fix
    pipeline = dataclasses.replace(healthy(), groups=[group(9, members=0, moved=True)])
    assert list(checks.groups_stuck(pipeline)) == []
    throttled = {1: {"leader.replication.throttled.rate": "1000"}}
    (finding,) = checks.reassignments_running(dataclasses.replace(healthy(), broker_settings=throttled))
    assert "--broker 1" in finding.fix
    (finding,) = checks.quorum_health(dataclasses.replace(healthy(), quorum=quorum(5)))
    assert finding.severity == "risk"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"log.dirs": "/tmp"}, ["directories"]),
        ({"listeners": "PLAINTEXT://0.0.0.0:9092", "advertised.listeners": "PLAINTEXT://h:9092"}, ["listeners"]),
        ({"min.insync.replicas": "3"}, ["replication"]),
        ({"unclean.leader.election.enable": "true"}, ["settings"]),
        ({"log.segment.bytes": "many"}, ["settings"]),
    ],
)
def test_properties_files(changes: dict[str, str], expected: list[str]) -> None:
    good = {
        "process.roles": "broker",
        "node.id": "1",
        "listeners": "PLAINTEXT://127.0.0.1:9092",
        "controller.quorum.voters": "9@127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": "/data-that-is-not-here",
        "default.replication.factor": "3",
    }
    assert [finding.check for finding in examine_properties({**good, **changes})] == expected


def test_mounts(tmp_path: Any) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"disk / ext4 rw,relatime 0 0\nother {tmp_path} xfs rw,noatime 0 0\n")
    assert mount_options(str(tmp_path), mounts=str(mounts)) == ["rw", "noatime"]
    assert mount_options("/nowhere-at-all", mounts=str(mounts)) == []


def test_damaged_segments_in_metrics() -> None:
    text = (
        "# TYPE ottla_log_damaged_segments gauge\nottla_log_damaged_segments 1\n"
        'ottla_log_damaged_segment{topic="a.b-c",partition="3",offset="1234"} 1\n'
    )
    assert parse_node_metrics(text).damaged == [DamagedSegmentMetric("a.b-c", 3, 1234)]
    damaged = NodeMetrics([DamagedSegmentMetric("unknown", 0, 5)], {}, 0, 0)
    single = dataclasses.replace(healthy(), metrics={1: damaged})
    (finding,) = checks.damaged_segments(single)
    assert "restore" in finding.fix


def test_certificates_and_logins_in_metrics() -> None:
    day = 86_400.0
    text = (
        'ottla_tls_certificate_expiry_timestamp_seconds{listener="CLIENTS"} 864000.0\n'
        'kafka_server_socket_server_metrics_failed_authentication_total{listener="CLIENTS"} 30\n'
        'kafka_server_socket_server_metrics_failed_authentication_total{listener="BROKERS"} 1\n'
        'kafka_server_socket_server_metrics_successful_authentication_total{listener="CLIENTS"} 31\n'
    )
    metrics = parse_node_metrics(text)
    assert metrics == NodeMetrics([], {"CLIENTS": 10 * day}, 31, 31)
    facts = dataclasses.replace(healthy(), metrics={1: metrics}, now_seconds=0.0)
    (finding,) = services.certificates_that_end(facts)
    assert (finding.severity, "expires in 10 days" in finding.what) == ("risk", True)
    # As many logins succeed: a client has a wrong password, but this is no guessing attack.
    assert list(services.logins_that_fail(facts)) == []
    later = NodeMetrics([], {"CLIENTS": 40 * day}, 0, 0)
    assert list(services.certificates_that_end(dataclasses.replace(facts, metrics={1: later}))) == []


def test_logins_that_failed_long_ago_are_a_hint() -> None:
    facts = dataclasses.replace(healthy(), metrics={1: NodeMetrics([], {}, 40, 3)})
    for rate, severity in ((0.0, "hint"), (30.0, "risk")):
        (finding,) = services.logins_that_fail(dataclasses.replace(facts, failed_logins_per_second={1: rate}))
        assert finding.severity == severity


def test_a_schema_is_wrong_once_a_group_stands_before_its_records() -> None:
    stuck = dataclasses.replace(healthy(), breaking_versions=[BREAKING], groups=[group(9, members=1, moved=False)])
    (finding,) = services.schemas_that_break_consumers(stuck)
    assert (finding.severity, "g of t does not move" in finding.what) == ("wrong", True)
    for entry in (group(9, members=1, moved=True), group(0, members=1, moved=False)):
        (finding,) = services.schemas_that_break_consumers(dataclasses.replace(stuck, groups=[entry]))
        assert finding.severity == "risk"


def test_a_mirror_that_was_switched_off_long_ago_is_a_hint() -> None:
    facts = dataclasses.replace(healthy(), heartbeats={("a", "b"): 0}, now_seconds=100_000.0)
    assert [finding.severity for finding in services.mirrors_behind(facts)] == ["hint"]


class Schemas(RegistryClient):
    """A registry whose subjects have two versions."""

    def __init__(self, level: str, *versions: SchemaText) -> None:
        super().__init__("http://localhost")
        self._level = level
        self._versions = versions

    def call(self, method: str, path: str, body: Any = None) -> Any:
        assert (method, body) == ("GET", None)
        if path == "/subjects":
            return ["t-value"]
        if path.startswith("/config"):
            return {"compatibilityLevel": self._level}
        return list(range(1, len(self._versions) + 1))

    def version(self, subject: str, version: int, *, form: str = "") -> SchemaText:
        assert not form
        if subject == "other":
            return SchemaText(record("Inner", "int"))
        return self._versions[version - 1]


def record(name: str, *kinds: str) -> str:
    fields = [f'{{"name": "f{number}", "type": "{kind}"}}' for number, kind in enumerate(kinds)]
    return f'{{"type": "record", "name": "{name}", "fields": [{", ".join(fields)}]}}'


def test_versions_that_consumers_cannot_read() -> None:
    old, wider, other = (SchemaText(record("R", *kinds)) for kinds in (("int",), ("int", "string"), ("string",)))
    assert find_breaking_versions(Schemas("NONE", old)) == []
    assert find_breaking_versions(Schemas("NONE", old, wider)) == []
    (breaking,) = find_breaking_versions(Schemas("NONE", old, other))
    assert (breaking.subject, breaking.version, breaking.before, breaking.topic) == ("t-value", 2, 1, "t")
    assert breaking.problem
    # The registry has already checked this compatibility level.
    assert find_breaking_versions(Schemas("BACKWARD", old, other)) == []
    (breaking,) = find_breaking_versions(Schemas("NONE", old, SchemaText("{}", "JSON")))
    assert breaking.problem == "it is JSON, and the version before is AVRO"
    assert find_breaking_versions(Schemas("NONE", old, SchemaText("no schema"))) == []
    first, second = (
        SchemaText(record("Outer", *kinds), references=(("Inner", "other", 1),))
        for kinds in (("Inner",), ("Inner", "int"))
    )
    assert find_breaking_versions(Schemas("NONE", first, second)) == []
