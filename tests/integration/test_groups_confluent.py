"""Groups of confluent-kafka consumers: sharing, callbacks, static members, and the position after a rebalance.

Scenarios that do not depend on the protocol run under both: the classic and the consumer protocol (KIP-848).
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupState, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

import ottla.testing
from tests.integration.cluster_calls import wait_until
from tests.integration.group_members import (
    ConfluentMember,
    Event,
    closing,
    create_topic,
    drive,
    fill,
    places,
    set_session_timeout,
    shared,
    unique,
)

# So many records that a member without records is not merely late.
EACH = 50

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "100",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.session.timeout.ms": "6000",
    "group.consumer.min.session.timeout.ms": "1000",
    "offsets.topic.num.partitions": "5",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.testing.Cluster]:
    """One node that rebalances as fast as it can."""
    with ottla.testing.cluster(settings=SETTINGS) as running:
        yield running


@pytest.fixture(scope="module")
def bootstrap(cluster: ottla.testing.Cluster) -> str:
    return cluster.bootstrap


CLASSIC: dict[str, Any] = {"partition.assignment.strategy": "range"}
COOPERATIVE: dict[str, Any] = {"partition.assignment.strategy": "cooperative-sticky"}
CONSUMER: dict[str, Any] = {"group.protocol": "consumer"}

both_protocols = pytest.mark.parametrize(
    "protocol", [pytest.param(CLASSIC, id="classic"), pytest.param(CONSUMER, id="consumer")]
)
every_kind = pytest.mark.parametrize(
    "protocol",
    [
        pytest.param(CLASSIC, id="range"),
        pytest.param({"partition.assignment.strategy": "roundrobin"}, id="roundrobin"),
        pytest.param(COOPERATIVE, id="cooperative-sticky"),
        pytest.param({**CONSUMER, "group.remote.assignor": "uniform"}, id="uniform"),
        pytest.param({**CONSUMER, "group.remote.assignor": "range"}, id="server-range"),
    ],
)


class TestSharing:
    @every_kind
    def test_one_two_four_and_five_members_of_four_partitions(self, bootstrap: str, protocol: dict[str, Any]) -> None:
        topic, group = create_topic(bootstrap, 4), unique("group")
        members: list[ConfluentMember] = []
        journal: list[Event] = []
        try:
            for size in (1, 2, 4, 5):
                while len(members) < size:
                    name = f"member-{len(members)}"
                    members.append(ConfluentMember(bootstrap, name, group, journal=journal, **protocol))
                    members[-1].subscribe(topic)
                drive(members, lambda: shared(members, topic, 4), f"{len(members)} members share four partitions")
            assert sorted(len(member.owned) for member in members) == [0, 1, 1, 1, 1]
            while len(members) > 1:
                members.pop(0).close()
                drive(members, lambda: shared(members, topic, 4), "those who stay take over at once")
        finally:
            for member in members:
                member.close()

    @both_protocols
    def test_another_group_gets_everything_again(self, bootstrap: str, protocol: dict[str, Any]) -> None:
        topic = create_topic(bootstrap, 2)
        fill(bootstrap, topic, [EACH, EACH])
        for _ in range(2):
            member = ConfluentMember(bootstrap, "reader", unique("group"), **protocol).subscribe(topic)
            with closing(member):
                drive([member], lambda: len(member.records) >= 2 * EACH, "the group has read everything")  # noqa: B023
            assert sorted(member.records) == [(topic, part, offset) for part in (0, 1) for offset in range(EACH)]

    @both_protocols
    def test_new_partitions_and_new_topics_are_shared_too(self, bootstrap: str, protocol: dict[str, Any]) -> None:
        prefix = unique("grown")
        topic, group = create_topic(bootstrap, 1, name=f"{prefix}-one"), unique("group")
        members = [ConfluentMember(bootstrap, f"member-{number}", group, **protocol) for number in range(2)]
        with closing(*members):
            for member in members:
                member.subscribe(f"^{prefix}-.*")
            drive(members, lambda: shared(members, topic, 1), "the first topic is read")
            admin = AdminClient({"bootstrap.servers": bootstrap})
            admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
            drive(members, lambda: shared(members, topic, 2), "the new partition is read")
            create_topic(bootstrap, 2, name=f"{prefix}-two")
            wanted = places(topic, 2) | places(f"{prefix}-two", 2)
            drive(members, lambda: members[0].owned | members[1].owned == wanted, "the new topic is read")
            assert not members[0].owned & members[1].owned
            create_topic(bootstrap, 1, name=unique("other"))
            assert members[0].owned | members[1].owned == wanted

    @both_protocols
    def test_a_member_that_vanishes_is_replaced_after_its_session(
        self, bootstrap: str, protocol: dict[str, Any]
    ) -> None:
        topic, group = create_topic(bootstrap, 2), unique("group")
        limits: dict[str, Any] = {"session.timeout.ms": 1500} if protocol is CLASSIC else {}
        if protocol is CONSUMER:
            set_session_timeout(bootstrap, group, 1500)
        stays = ConfluentMember(bootstrap, "stays", group, **protocol, **limits).subscribe(topic)
        with closing(stays), start_member_process(bootstrap, group, topic, {**protocol, **limits}) as process:
            try:
                drive([stays], lambda: shared_with_other(stays, topic), "two members share")
            finally:
                process.kill()
            drive([stays], lambda: stays.owned == places(topic, 2), "the member that is left has everything")


def is_empty(bootstrap: str, group: str) -> bool:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    return bool(admin.describe_consumer_groups([group])[group].result(30).state == ConsumerGroupState.EMPTY)


def shared_with_other(member: ConfluentMember, topic: str) -> bool:
    return len(member.owned) == 1 and member.owned < places(topic, 2)


def start_member_process(bootstrap: str, group: str, topic: str, settings: dict[str, Any]) -> subprocess.Popen[bytes]:
    """A member in its own process, which the test kills without a LeaveGroup."""
    program = (
        "import sys, json\n"
        "from confluent_kafka import Consumer\n"
        "consumer = Consumer(json.loads(sys.argv[1]))\n"
        "consumer.subscribe([sys.argv[2]])\n"
        "while True: consumer.poll(0.05)\n"
    )
    configuration = {"bootstrap.servers": bootstrap, "group.id": group, **settings}
    if "group.protocol" not in settings:
        configuration["heartbeat.interval.ms"] = 100
    return subprocess.Popen([sys.executable, "-c", program, json.dumps(configuration), topic])


class TestCallbacks:
    def test_cooperative_members_keep_what_does_not_move(self, bootstrap: str) -> None:
        topic, group = create_topic(bootstrap, 4), unique("group")
        journal: list[Event] = []
        first = ConfluentMember(bootstrap, "first", group, journal=journal, **COOPERATIVE).subscribe(topic)
        second = ConfluentMember(bootstrap, "second", group, journal=journal, **COOPERATIVE)
        nothing_new = {name: Event(name, "assigned", frozenset()) for name in ("first", "second")}
        with closing(first, second):
            drive([first], lambda: first.owned == places(topic, 4), "the first has everything")
            second.subscribe(topic)
            # The callback runs even without new partitions, after the rebalance in which the second joins. The first
            # rejoins only when it is polled. If it rejoined before the second has synchronised, the second's SyncGroup
            # would get REBALANCE_IN_PROGRESS, as in Apache Kafka, and the callback would not run.
            drive([second], lambda: nothing_new["second"] in journal, "the second was told that nothing is new")
            drive([first, second], lambda: shared([first, second], topic, 4), "both share")
            # Only the moved partitions were revoked, and the second got them only after the first had given them up.
            (revoked,) = first.events("revoked")
            assert revoked.partitions == second.owned
            (gained,) = [event for event in second.events("assigned") if event.partitions]
            assert journal.index(revoked) < journal.index(gained)
            assert all(event.partitions for event in journal if event.kind in ("revoked", "lost"))
            # The first gets no new partitions in the last rebalance, and may learn of it later than the second.
            drive([first, second], lambda: nothing_new["first"] in journal, "the first was told that nothing is new")
            second.close()
            drive([first], lambda: first.owned == places(topic, 4), "the first has everything again")
            assert len(first.events("revoked")) == 1
            assert not first.events("lost")

    def test_eager_members_give_up_everything_first(self, bootstrap: str) -> None:
        topic, group = create_topic(bootstrap, 4), unique("group")
        journal: list[Event] = []
        first = ConfluentMember(bootstrap, "first", group, journal=journal, **CLASSIC).subscribe(topic)
        second = ConfluentMember(bootstrap, "second", group, journal=journal, **CLASSIC)
        with closing(first, second):
            drive([first], lambda: first.owned == places(topic, 4), "the first has everything")
            second.subscribe(topic)
            drive([first, second], lambda: shared([first, second], topic, 4), "both share")
            kinds = [event.kind for event in first.events()]
            assert kinds == ["assigned", "revoked", "assigned"]
            assert first.events("revoked")[0].partitions == places(topic, 4)
            gained = second.events("assigned")[-1]
            assert journal.index(first.events("revoked")[0]) < journal.index(gained)

    def test_the_consumer_protocol_moves_a_partition_when_it_was_given_up(self, bootstrap: str) -> None:
        topic, group = create_topic(bootstrap, 4), unique("group")
        journal: list[Event] = []
        first = ConfluentMember(bootstrap, "first", group, journal=journal, **CONSUMER).subscribe(topic)
        second = ConfluentMember(bootstrap, "second", group, journal=journal, **CONSUMER)
        with closing(first, second):
            drive([first], lambda: first.owned == places(topic, 4), "the first has everything")
            second.subscribe(topic)
            drive([first, second], lambda: shared([first, second], topic, 4), "both share")
            revoked = first.events("revoked")
            assert frozenset().union(*(event.partitions for event in revoked)) == second.owned
            for gained in second.events("assigned"):
                for place in gained.partitions:
                    given_up = next(event for event in revoked if place in event.partitions)
                    assert journal.index(given_up) < journal.index(gained)
            assert all(event.partitions for event in journal if event.kind in ("revoked", "lost"))

    @pytest.mark.parametrize("protocol", [pytest.param(CLASSIC, id="eager"), pytest.param(COOPERATIVE, id="coop")])
    def test_partitions_of_a_member_thought_dead_are_lost(self, bootstrap: str, protocol: dict[str, Any]) -> None:
        topic, group = create_topic(bootstrap, 2), unique("group")
        fill(bootstrap, topic, [EACH, EACH])
        limits: dict[str, Any] = {"session.timeout.ms": 1000, "max.poll.interval.ms": 1000}
        slow = ConfluentMember(bootstrap, "slow", group, **protocol, **limits).subscribe(topic)
        other = ConfluentMember(bootstrap, "other", group, **protocol)
        with closing(slow, other):
            drive([slow], lambda: slow.owned == places(topic, 2), "the slow one has everything")
            # The slow member does not poll for longer than max.poll.interval.ms, so its client leaves the group.
            wait_until(lambda: is_empty(bootstrap, group), "the group is empty")
            other.subscribe(topic)
            drive([other], lambda: other.owned == places(topic, 2), "the other has everything")
            assert slow.events("lost") == []
            drive([slow, other], lambda: bool(slow.events("lost")), "the slow one hears of its loss")
            assert slow.events("lost")[0].partitions == places(topic, 2)
            assert slow.events("revoked") == []
            drive([slow, other], lambda: shared([slow, other], topic, 2), "both share again")

    @both_protocols
    def test_what_is_committed_while_revoking_is_where_the_next_owner_starts(
        self, bootstrap: str, protocol: dict[str, Any]
    ) -> None:
        topic, group = create_topic(bootstrap, 2), unique("group")
        fill(bootstrap, topic, [EACH, EACH])
        first = ConfluentMember(bootstrap, "first", group, **protocol).subscribe(topic)
        second = ConfluentMember(bootstrap, "second", group, **protocol)

        def commit_positions(partitions: list[TopicPartition]) -> None:
            positions = [position for position in first.consumer.position(partitions) if position.offset >= 0]
            first.consumer.commit(offsets=positions, asynchronous=False)

        first.before_revoke = commit_positions
        with closing(first, second):
            drive([first], lambda: len(first.records) == 2 * EACH, "the first has read everything")
            second.subscribe(topic)
            drive([first, second], lambda: shared([first, second], topic, 2), "both share")
            fill(bootstrap, topic, [1, 1], start=EACH)
            new_values = {b"0:%d" % EACH, b"1:%d" % EACH}
            drive(
                [first, second],
                lambda: new_values <= set(first.values[2 * EACH :]) | set(second.values),
                "the new records are read",
            )
            assert len(first.values) + len(second.values) == 2 * EACH + 2


class TestStaticMembers:
    @both_protocols
    def test_a_restart_within_the_session_moves_nothing(self, bootstrap: str, protocol: dict[str, Any]) -> None:
        topic, group = create_topic(bootstrap, 4), unique("group")

        def member(name: str) -> ConfluentMember:
            settings: dict[str, Any] = {**protocol, "group.instance.id": name}
            return ConfluentMember(bootstrap, name, group, **settings).subscribe(topic)

        first, second = member("one"), member("two")
        with closing(first, second):
            drive([first, second], lambda: shared([first, second], topic, 4), "both share")
            before, events = second.owned, len(first.journal)
            second.close()
            again = member("two")
            with closing(again):
                drive([first, again], lambda: again.owned == before, "the restarted member has its partitions back")
                assert len(first.journal) == events, "the other member was disturbed"

    def test_the_older_of_two_with_one_name_is_fenced(self, bootstrap: str) -> None:
        topic, group = create_topic(bootstrap, 2), unique("group")
        settings: dict[str, Any] = {**CLASSIC, "group.instance.id": "same"}
        older = ConfluentMember(bootstrap, "older", group, **settings).subscribe(topic)
        newer = ConfluentMember(bootstrap, "newer", group, **settings)
        with closing(older, newer):
            drive([older], lambda: older.owned == places(topic, 2), "the older has everything")
            newer.subscribe(topic)
            drive([older, newer], lambda: bool(older.errors), "the older is fenced")
            assert older.errors[0].code() == KafkaError._FATAL
            assert "fenced by other consumer" in older.errors[0].str()
            drive([newer], lambda: newer.owned == places(topic, 2), "the newer has everything")

    def test_the_newer_of_two_with_one_name_is_refused(self, bootstrap: str) -> None:
        """Under the consumer protocol an instance id is in use until its owner has left (KIP-848)."""
        topic, group = create_topic(bootstrap, 2), unique("group")
        settings: dict[str, Any] = {**CONSUMER, "group.instance.id": "same"}
        older = ConfluentMember(bootstrap, "older", group, **settings).subscribe(topic)
        newer = ConfluentMember(bootstrap, "newer", group, **settings)
        with closing(older, newer):
            drive([older], lambda: older.owned == places(topic, 2), "the older has everything")
            newer.subscribe(topic)
            drive([older, newer], lambda: bool(newer.errors), "the newer is refused")
            assert newer.errors[0].code() == KafkaError._FATAL
            assert "still used by another member" in newer.errors[0].str()
            assert older.owned == places(topic, 2)


class TestCommits:
    @both_protocols
    def test_synchronous_asynchronous_and_with_metadata(self, bootstrap: str, protocol: dict[str, Any]) -> None:
        topic, group = create_topic(bootstrap, 2), unique("group")
        fill(bootstrap, topic, [EACH, EACH])
        member = ConfluentMember(bootstrap, "member", group, **protocol).subscribe(topic)
        with closing(member):
            drive([member], lambda: len(member.records) == 2 * EACH, "everything is read")
            member.consumer.commit(asynchronous=False)
            assert member.committed((topic, 0), (topic, 1)) == {(topic, 0): EACH, (topic, 1): EACH}
            member.consumer.commit(offsets=[TopicPartition(topic, 0, 7, "reviewed up to here")], asynchronous=False)
            (back,) = member.consumer.committed([TopicPartition(topic, 0)], timeout=30)
            assert (back.offset, back.metadata) == (7, "reviewed up to here")
            del member.commit_results[:]
            member.consumer.commit(offsets=[TopicPartition(topic, 1, 9)], asynchronous=True)
            drive([member], lambda: bool(member.commit_results), "the callback is called")
            assert member.commit_results[0][0] is None
            assert member.committed((topic, 1)) == {(topic, 1): 9}
            too_long = TopicPartition(topic, 0, 8, "x" * 4097)
            with pytest.raises(KafkaException) as refused:
                member.consumer.commit(offsets=[too_long], asynchronous=False)
            assert refused.value.args[0].code() == KafkaError.OFFSET_METADATA_TOO_LARGE
            assert member.committed((topic, 0)) == {(topic, 0): 7}

    @both_protocols
    def test_a_later_member_goes_on_where_the_group_stopped(self, bootstrap: str, protocol: dict[str, Any]) -> None:
        """A commit that is too low repeats records, and a commit that is too high skips them."""
        topic = create_topic(bootstrap, 1)
        fill(bootstrap, topic, [EACH])
        for stopped_at in (10, 30):
            group = unique("group")
            member = ConfluentMember(bootstrap, "first", group, **protocol).subscribe(topic)
            with closing(member):
                drive([member], lambda: bool(member.records), "the group reads")  # noqa: B023
                member.consumer.commit(offsets=[TopicPartition(topic, 0, stopped_at)], asynchronous=False)
            later = ConfluentMember(bootstrap, "later", group, **protocol).subscribe(topic)
            with closing(later):
                drive([later], lambda: len(later.records) == EACH - stopped_at, "the rest is read")  # noqa: B023
            assert later.records[0] == (topic, 0, stopped_at)

    @both_protocols
    def test_automatic_commits(self, bootstrap: str, protocol: dict[str, Any]) -> None:
        topic, group = create_topic(bootstrap, 1), unique("group")
        fill(bootstrap, topic, [EACH])
        settings: dict[str, Any] = {**protocol, "enable.auto.commit": True, "auto.commit.interval.ms": 100}
        member = ConfluentMember(bootstrap, "member", group, **settings).subscribe(topic)
        with closing(member):
            drive([member], lambda: len(member.records) == EACH, "everything is read")
            drive([member], lambda: member.committed((topic, 0)) == {(topic, 0): EACH}, "it is committed by itself")
            member.consumer.close()
        # Closing commits the offsets that the interval has not committed yet.
        settings["auto.commit.interval.ms"] = 3_600_000
        fill(bootstrap, topic, [5], start=EACH)
        member = ConfluentMember(bootstrap, "member", group, **settings).subscribe(topic)
        with closing(member):
            drive([member], lambda: len(member.records) == 5, "the rest is read")
        looker = ConfluentMember(bootstrap, "looker", group, **CLASSIC)
        with closing(looker):
            assert looker.committed((topic, 0)) == {(topic, 0): EACH + 5}

    def test_a_standalone_consumer_commits_without_a_group(self, bootstrap: str) -> None:
        topic, group = create_topic(bootstrap, 1), unique("standalone")
        fill(bootstrap, topic, [EACH])
        member = ConfluentMember(bootstrap, "alone", group)
        with closing(member):
            member.consumer.assign([TopicPartition(topic, 0)])
            drive([member], lambda: len(member.records) == EACH, "everything is read")
            member.consumer.commit(asynchronous=False)
            assert member.committed((topic, 0)) == {(topic, 0): EACH}
            admin = AdminClient({"bootstrap.servers": bootstrap})
            admin.create_partitions([NewPartitions(topic, 2)])[topic].result(30)
            assert member.owned == {(topic, 0)}

    def test_a_member_that_was_replaced_cannot_commit(self, bootstrap: str) -> None:
        topic, group = create_topic(bootstrap, 1), unique("group")
        fill(bootstrap, topic, [EACH])
        settings: dict[str, Any] = {**CLASSIC, "session.timeout.ms": 1000, "max.poll.interval.ms": 1000}
        slow = ConfluentMember(bootstrap, "slow", group, **settings).subscribe(topic)
        other = ConfluentMember(bootstrap, "other", group, **CLASSIC)
        with closing(slow, other):
            # All records, and no others; if the member was too slow even for this, some records twice.
            everything = {(topic, 0, number) for number in range(EACH)}
            drive([slow], lambda: set(slow.records) == everything, "the slow one has read")
            other.subscribe(topic)
            drive([other], lambda: other.owned == places(topic, 1), "the other has taken over")
            other.consumer.commit(offsets=[TopicPartition(topic, 0, 40)], asynchronous=False)
            with pytest.raises(KafkaException):
                slow.consumer.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
            assert other.committed((topic, 0)) == {(topic, 0): 40}


class TestReading:
    @both_protocols
    def test_seek_pause_and_resume(self, bootstrap: str, protocol: dict[str, Any]) -> None:
        topic, group = create_topic(bootstrap, 2), unique("group")
        fill(bootstrap, topic, [EACH, EACH])
        member = ConfluentMember(bootstrap, "member", group, **protocol).subscribe(topic)
        with closing(member):
            drive([member], lambda: len(member.records) == 2 * EACH, "everything is read")
            del member.records[:]
            member.consumer.seek(TopicPartition(topic, 0, EACH - 5))
            drive([member], lambda: len(member.records) == 5, "the last five are read again")
            assert member.records == [(topic, 0, EACH - 5 + number) for number in range(5)]
            member.consumer.pause([TopicPartition(topic, 0)])
            del member.records[:]
            fill(bootstrap, topic, [3, 3], start=EACH)
            drive([member], lambda: len(member.records) == 3, "the partition that is not paused is read")
            assert {partition for _, partition, _ in member.records} == {1}
            assert member.owned == places(topic, 2)
            member.consumer.resume([TopicPartition(topic, 0)])
            drive([member], lambda: len(member.records) == 6, "the other one is read again")
            (position,) = member.consumer.position([TopicPartition(topic, 0)])
            assert position.offset == EACH + 3

    @both_protocols
    def test_where_a_group_without_offsets_begins(self, bootstrap: str, protocol: dict[str, Any]) -> None:
        topic = create_topic(bootstrap, 1)
        fill(bootstrap, topic, [EACH])
        latest = ConfluentMember(bootstrap, "latest", unique("group"), **{**protocol, "auto.offset.reset": "latest"})
        nowhere = ConfluentMember(bootstrap, "none", unique("group"), **{**protocol, "auto.offset.reset": "error"})
        with closing(latest, nowhere):
            latest.subscribe(topic)
            drive([latest], lambda: latest.owned == places(topic, 1), "the member is there")
            (_, end) = latest.consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)
            assert end == EACH
            drive([latest], lambda: latest.consumer.position([TopicPartition(topic, 0)]) is not None, "it polls")
            number = EACH
            while not latest.records:
                # Until the consumer has looked up the end of the log, "latest" may be behind these records.
                fill(bootstrap, topic, [1], start=number)
                number += 1
                latest.poll(0.2)
            assert latest.records[0][2] >= EACH
            nowhere.subscribe(topic)
            drive([nowhere], lambda: bool(nowhere.errors), "the member says that it does not know where to begin")
            assert nowhere.errors[0].code() == KafkaError._AUTO_OFFSET_RESET
            assert nowhere.records == []

    def test_offsets_in_a_database_with_the_results(self, bootstrap: str) -> None:
        """Result and offset are in one database transaction: a reader that fails midway loses and repeats no record."""
        topic, group = create_topic(bootstrap, 2), unique("group")
        fill(bootstrap, topic, [EACH, EACH])
        database = sqlite3.connect(":memory:")
        database.execute("create table results (partition integer, value text)")
        database.execute("create table offsets (partition integer primary key, offset integer)")

        def positions(partitions: list[TopicPartition]) -> list[TopicPartition]:
            known = dict(database.execute("select partition, offset from offsets"))
            return [
                TopicPartition(partition.topic, partition.partition, known.get(partition.partition, 0))
                for partition in partitions
            ]

        for stops_after in (30, 2 * EACH):
            member = ConfluentMember(bootstrap, "member", group, **CLASSIC)
            member.positions = positions
            member.subscribe(topic)
            with closing(member):
                while database.execute("select count(*) from results").fetchone()[0] < stops_after:
                    for message in member.consumer.consume(7, timeout=5):
                        place = (message.partition(), message.offset() + 1)
                        database.execute("insert into results values (?, ?)", (place[0], message.value().decode()))
                        database.execute("insert or replace into offsets values (?, ?)", place)
                    database.commit()
                # An unfinished transaction has no effect.
                for message in member.consumer.consume(5, timeout=0.1):
                    database.execute("insert into results values (?, ?)", (message.partition(), "unfinished"))
                database.rollback()
        values = [value for (value,) in database.execute("select value from results")]
        database.close()
        assert sorted(values) == sorted(f"{index}:{number}" for index in (0, 1) for number in range(EACH))
