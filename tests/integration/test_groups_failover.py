"""Committed offsets survive crashes of the coordinator: of a single node, and of one among three."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

import ottla.testing
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from tests.integration.cluster_calls import ask, wait_until
from tests.integration.group_members import ConfluentMember, closing, create_topic, drive, fill, unique

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "offsets.topic.num.partitions": "4",
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "200",
}
# Errors with which a client reports that the coordinator was away for a moment.
PASSING = {
    KafkaError._WAIT_COORD,
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._DESTROY,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
    KafkaError.REBALANCE_IN_PROGRESS,
    KafkaError.REQUEST_TIMED_OUT,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.STALE_MEMBER_EPOCH,
}

both_protocols = pytest.mark.parametrize("protocol", ["classic", "consumer"])


@both_protocols
@pytest.mark.parametrize("end", ["kill", "stop"])
def test_one_node_comes_back_with_its_groups(protocol: str, end: str) -> None:
    with ottla.testing.cluster(settings=SETTINGS) as cluster:
        topic = create_topic(cluster.bootstrap, 3)
        fill(cluster.bootstrap, topic, [30] * 3)
        settings: dict[str, Any] = {"group.protocol": protocol}
        if protocol == "classic":
            # So long that the member keeps its session while the node is away, and does not read records again.
            settings["session.timeout.ms"] = 60_000
        member = ConfluentMember(cluster.bootstrap, "member", "kept", **settings).subscribe(topic)
        with closing(member):
            drive([member], lambda: len(member.records) == 90, "everything is read")
            member.consumer.commit(asynchronous=False)
            places = [(topic, index) for index in range(3)]
            member.consumer.commit(offsets=[TopicPartition(topic, 0, 12, "here")], asynchronous=False)
            getattr(cluster.node(1), end)()
            cluster.node(1).start()
            looker = ConfluentMember(cluster.bootstrap, "looker", "kept")
            with closing(looker):
                assert looker.committed(*places) == {(topic, 0): 12, (topic, 1): 30, (topic, 2): 30}
                (committed,) = looker.consumer.committed([TopicPartition(topic, 0)], timeout=30)
                assert committed.metadata == "here"
            # The member stayed in the group all the time, and continues without a rebalance.
            fill(cluster.bootstrap, topic, [1] * 3, start=30)
            drive([member], lambda: {b"0:30", b"1:30", b"2:30"} <= set(member.values), "the new records are read")
            assert len(member.values) == 93
            commit_at_last(member)
            assert member.committed(*places) == dict.fromkeys(places, 31)


@both_protocols
@pytest.mark.timeout(120)
def test_a_group_goes_on_when_its_coordinator_is_killed(protocol: str) -> None:
    with ottla.testing.cluster(nodes=3, settings={**SETTINGS, "offsets.topic.replication.factor": "3"}) as cluster:
        topic = create_topic(cluster.bootstrap, 6, replicas=3)
        group = group_coordinated_by(cluster, lambda node_id: node_id != 1)
        coordinator = coordinator_of(cluster, group)
        settings: dict[str, Any] = {"group.protocol": protocol}
        members = [
            ConfluentMember(cluster.bootstrap, f"member-{number}", group, **settings).subscribe(topic)
            for number in range(3)
        ]
        places = [(topic, index) for index in range(6)]
        with closing(*members):
            drive(members, lambda: sorted(len(member.owned) for member in members) == [2, 2, 2], "all share")
            fill(cluster.bootstrap, topic, [50] * 6)
            drive(members, lambda: everything_read(members, 6, 50), "everything is read")
            for member in members:
                commit_at_last(member)
            before = members[0].committed(*places)
            assert before == dict.fromkeys(places, 50)
            cluster.node(coordinator).kill()
            looker = ConfluentMember(cluster.bootstrap, "looker", group)
            with closing(looker):
                assert committed_at_last(looker, places) == before
            assert coordinator_of(cluster, group, but=coordinator) != coordinator
            fill(cluster.bootstrap, topic, [20] * 6, start=50)
            drive(members, lambda: everything_read(members, 6, 70), "the group goes on")
            drive(members, lambda: sum(len(member.owned) for member in members) == 6, "all share again")
            for member in members:
                commit_at_last(member)
            assert committed_at_last(members[0], places) == dict.fromkeys(places, 70)
            cluster.node(coordinator).start()
            # The node is back, and no committed offset has moved backwards.
            assert committed_at_last(members[0], places) == dict.fromkeys(places, 70)


def everything_read(members: list[ConfluentMember], partitions: int, count: int) -> bool:
    values = {value for member in members for value in member.values}
    return values >= {b"%d:%d" % (index, number) for index in range(partitions) for number in range(count)}


def commit_at_last(member: ConfluentMember) -> None:
    """Commits the member's offsets, and retries while the coordinator is away."""

    def committed() -> bool:
        member.poll()
        try:
            member.consumer.commit(asynchronous=False)
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError._NO_OFFSET:
                # Everything is committed, or the member owns nothing.
                return True
            if code not in PASSING:
                raise
            return False
        return True

    wait_until(committed, "the offsets are committed")


def committed_at_last(member: ConfluentMember, places: list[tuple[str, int]]) -> dict[tuple[str, int], int]:
    offsets: list[dict[tuple[str, int], int]] = []

    def fetched() -> bool:
        try:
            offsets.append(member.committed(*places))
        except KafkaException as error:
            if error.args[0].code() not in PASSING:
                raise
            return False
        return True

    wait_until(fetched, "the offsets are told")
    return offsets[-1]


def coordinator_of(cluster: ottla.testing.Cluster, group: str, *, but: int = 0) -> int:
    """The coordinator according to the first running node; waits until it is another node than `but`."""
    node = next(node for node in cluster.nodes if node.running)
    coordinators = [-1]

    def known() -> bool:
        (answer,) = ask(node, FindCoordinatorRequest(coordinator_keys=[group]), 4).coordinators
        coordinators[0] = answer.node_id
        return bool(answer.error_code == 0 and answer.node_id != but)

    wait_until(known, "there is a coordinator")
    return coordinators[0]


def group_coordinated_by(cluster: ottla.testing.Cluster, wanted: Callable[[int], bool]) -> str:
    """A group whose coordinator the test may kill: node 1 is the controller, which must stay alive."""
    while True:
        group = unique("group")
        if wanted(coordinator_of(cluster, group)):
            return group
