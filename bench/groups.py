"""Consumer groups: joining, rebalancing, and offset commits.

Members learn of a rebalance with the answer to a heartbeat, so with Kafka's intervals (3 s, and 5 s in the new
protocol) the measurement would mostly show the time to the next heartbeat. `SETTINGS` and the classic members' own
setting make the interval 20 ms on both sides, and a consumer group is reassigned at every change instead of once a
second; the rest is mostly the work of brokers and clients. It still takes one or two intervals, and the order of
heartbeats is random: hence the many rounds. The initial delay of a classic group is 0, as in the server.properties of
Kafka's distribution; the case with the default delay has separate brokers.
"""

from __future__ import annotations

import itertools
import statistics
import time

from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.cases import Case, Goal, Metrics, wait_for_directories, write_to_each
from bench.clients import TIMEOUT_S, Clients
from bench.commits import commit_frame, drive_commits
from bench.measure import Meter
from tests.support.brokers import Broker

__all__ = ["SETTINGS", "essential_group_cases", "full_group_cases", "quick_group_cases"]

HEARTBEAT_MS = 20
# The least time that a member of the new protocol waits after an answer, at any interval; the default is 100.
RETRY_BACKOFF_MS = 10
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.min.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.assignment.interval.ms": "0",
}
DEFAULT_DELAY_MS = 3000
DEFAULT_DELAY = {"group.initial.rebalance.delay.ms": str(DEFAULT_DELAY_MS)}

AT_MOST_PEER = Goal(ratio=1.0)
AT_LEAST_PEER = Goal(ratio=1.0, at_most=False)

MEMBERS = 10
PARTITIONS = 900
JOINS = 15
ROUNDS = 8
# Topics with few partitions and a record in each, for joining; with many partitions for rebalances.
SMALL_TOPIC, SMALL_PARTITIONS = "groups-small", 6
LARGE_TOPIC = "groups-large"
OFFSETS_TOPIC, OFFSETS_PARTITIONS = "__consumer_offsets", 50
COMMIT_S = 1.2
# Coordinators of other partitions may still be loading when the first one answers.
SETTLE_S = 1.0

numbers = itertools.count()


def quick_group_cases() -> list[Case]:
    """The cases that fit into less than a minute: a group of ten members needs longer to form."""
    return [
        join_case("java", "classic"),
        join_case("java", "consumer"),
        commit_case(connections=1, groups=1),
        commit_case(connections=20, groups=1),
    ]


def essential_group_cases() -> list[Case]:
    """Every goal of consumer groups."""
    return [
        *quick_group_cases(),
        commit_case(connections=20, groups=1000),
        rebalance_case("classic", "range"),
        rebalance_case("consumer", "uniform"),
        default_delay_case(),
    ]


def full_group_cases() -> list[Case]:
    return [
        *essential_group_cases(),
        join_case("librdkafka", "classic"),
        join_case("librdkafka", "consumer"),
        rebalance_case("classic", "cooperative-sticky"),
        rebalance_case("consumer", "range"),
        commit_case(connections=20, groups=20, partitions=100),
    ]


def join_case(client: str, protocol: str) -> Case:
    def run(broker: Broker, clients: Clients) -> Metrics:
        name = small_topic(broker)
        group = f"join-{next(numbers)}"
        with Meter(broker.pids, clients.pids) as meter:
            if client == "java":
                times = clients.java_join(broker.bootstrap, name, protocol=protocol, group=group, count=JOINS)
            else:
                times = native_join(broker.bootstrap, name, protocol=protocol, group=group, count=JOINS)
        return {
            "ms": statistics.median(times),
            "broker CPU ms/join": meter.broker_cpu_s / JOINS * 1e3,
            "others": meter.others_share,
        }

    return Case(
        group=f"join to first record ({client})",
        name=f"{protocol} protocol, no initial delay",
        run=run,
        goals={"ms": AT_MOST_PEER},
        warm_up_runs=1,
        seconds=1.5,
    )


def default_delay_case() -> Case:
    """Three of the seconds are the delay itself; the comparison is about the rest."""

    def run(broker: Broker, clients: Clients) -> Metrics:
        name = small_topic(broker)
        group = f"delayed-{next(numbers)}"
        with Meter(broker.pids, clients.pids) as meter:
            (waited_ms,) = clients.java_join(broker.bootstrap, name, protocol="classic", group=group, count=1)
        assert waited_ms >= DEFAULT_DELAY_MS, f"{waited_ms} ms is less than the initial delay"
        return {
            "ms beyond the delay": waited_ms - DEFAULT_DELAY_MS,
            "ms": waited_ms,
            "others": meter.others_share,
        }

    return Case(
        group="join to first record (java)",
        name="classic protocol, default initial delay",
        run=run,
        goals={"ms beyond the delay": AT_MOST_PEER},
        warm_up_runs=2,
        seconds=3.5,
        settings=DEFAULT_DELAY,
    )


def rebalance_case(protocol: str, assignor: str) -> Case:
    settings = {
        "group.protocol": protocol,
        # A leaving member first waits for the answer to its last fetch, which must not take half a second here.
        "fetch.max.wait.ms": "50",
        "retry.backoff.ms": str(RETRY_BACKOFF_MS),
        **assignor_setting(protocol, assignor),
    }

    def run(broker: Broker, clients: Clients) -> Metrics:
        name = large_topic(broker)
        with Meter(broker.pids, clients.pids) as meter:
            times = clients.java_rebalance(
                broker.bootstrap,
                name,
                partitions=PARTITIONS,
                members=MEMBERS,
                group=f"rebalance-{next(numbers)}",
                rounds=ROUNDS,
                settings=settings,
            )
        return {
            "join ms": statistics.median(joined for joined, _ in times),
            "leave ms": statistics.median(left for _, left in times),
            "broker CPU s": meter.broker_cpu_s,
            "others": meter.others_share,
        }

    return Case(
        group="rebalance",
        name=f"{protocol} protocol, {assignor}, {MEMBERS} members, {PARTITIONS} p",
        run=run,
        goals={"join ms": AT_MOST_PEER, "leave ms": AT_MOST_PEER},
        warm_up_runs=2,
        seconds=4.0,
    )


def assignor_setting(protocol: str, assignor: str) -> dict[str, str]:
    if protocol == "consumer":
        return {"group.remote.assignor": assignor}
    classes = {"range": "RangeAssignor", "cooperative-sticky": "CooperativeStickyAssignor"}
    return {
        "partition.assignment.strategy": f"org.apache.kafka.clients.consumer.{classes[assignor]}",
        "heartbeat.interval.ms": str(HEARTBEAT_MS),
    }


def commit_case(*, connections: int, groups: int, partitions: int = 1) -> Case:
    """Every connection commits for its share of the groups, or all connections for the same group."""
    own_groups = max(1, groups // connections)
    # The connections do not all commit the same partitions.
    spans = SMALL_PARTITIONS

    def run(broker: Broker, clients: Clients) -> Metrics:
        wait_for_coordinator(broker)
        name = small_topic(broker) if spans * partitions <= SMALL_PARTITIONS else large_topic(broker)
        frames = [
            [
                commit_frame(
                    f"commit-{(connection * own_groups + number) % groups}",
                    name,
                    range(connection % spans * partitions, (connection % spans + 1) * partitions),
                    offset=number,
                )
                for number in range(max(own_groups, 10))
            ]
            for connection in range(connections)
        ]
        # The first commit creates the group, which is not part of the measurement.
        drive_commits(broker.bootstrap, frames, seconds=COMMIT_S / 3)
        with Meter(broker.pids, clients.pids) as meter:
            outcome = drive_commits(broker.bootstrap, frames, seconds=COMMIT_S)
        return {
            "commits/s": outcome.commits_per_s,
            "p99 ms": outcome.p99_ms,
            "p50 ms": outcome.p50_ms,
            "broker CPU us/commit": meter.broker_cpu_s / outcome.commits * 1e6,
            "others": meter.others_share,
        }

    of_groups = "one group" if groups == 1 else f"{groups:,} groups"
    by = "one at a time" if connections == 1 else f"{connections} at a time"
    return Case(
        group="offset commits",
        name=f"{of_groups}, {partitions} p each, {by}",
        run=run,
        goals={"commits/s": AT_LEAST_PEER, "p99 ms": AT_MOST_PEER},
        warm_up_runs=1,
        seconds=1.7,
    )


def native_join(bootstrap: str, topic: str, *, protocol: str, group: str, count: int) -> list[float]:
    """The equivalent of `GroupJoin.java` with librdkafka."""
    times = []
    for number in range(count):
        settings = {"bootstrap.servers": bootstrap, "group.id": f"{group}-{number}", "group.protocol": protocol}
        consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
        try:
            start = time.monotonic()
            consumer.subscribe([topic])
            while (message := consumer.poll(0.5)) is None or message.error() is not None:
                assert time.monotonic() < start + TIMEOUT_S, "no record"
            times.append((time.monotonic() - start) * 1e3)
        finally:
            consumer.close()
    return times


def wait_for_coordinator(broker: Broker) -> None:
    """The topic that keeps offsets is created when the first consumer asks for its coordinator; a commit does not."""
    if not any(broker.log_directory.glob(f"{OFFSETS_TOPIC}-*")):
        native_join(broker.bootstrap, small_topic(broker), protocol="classic", group="first", count=1)
        wait_for_directories(broker.log_directory, OFFSETS_TOPIC, OFFSETS_PARTITIONS)
        time.sleep(SETTLE_S)


def small_topic(broker: Broker) -> str:
    """A topic with a record in each partition, so that a member can read from any partition."""
    if not any(broker.log_directory.glob(f"{SMALL_TOPIC}-*")):
        lasting_topic(broker, SMALL_TOPIC, SMALL_PARTITIONS)
        write_to_each(broker.bootstrap, SMALL_TOPIC, SMALL_PARTITIONS)
    return SMALL_TOPIC


def large_topic(broker: Broker) -> str:
    return lasting_topic(broker, LARGE_TOPIC, PARTITIONS)


def lasting_topic(broker: Broker, name: str, partitions: int) -> str:
    """A topic that is created once and kept: creating 900 partitions per run would take longer than the run."""
    if not any(broker.log_directory.glob(f"{name}-*")):
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 3})
        for future in admin.create_topics([NewTopic(name, partitions, 1)]).values():
            future.result(TIMEOUT_S)
        wait_for_directories(broker.log_directory, name, partitions)
    return name
