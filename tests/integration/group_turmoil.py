"""Fifty members of a group that join, leave, crash and freeze at random, and a node that crashes once among them.

The choices come from a seed, which every failure message contains; their timing is not reproducible.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

from confluent_kafka import Producer

import ottla.testing
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.integration.cluster_calls import ask, wait_until
from tests.integration.group_chaos import ChaosMember, ClassicChaosMember, ConsumerChaosMember
from tests.integration.group_members import create_topic
from tests.integration.group_witness import Witness

__all__ = ["KINDS", "check_that_promises_hold"]

MEMBERS = 50
STATIC_MEMBERS = 5
PARTITIONS = 60
SETTLE_SECONDS_MAX = 180.0
SEED = 20_480

KINDS: dict[str, list[type[ChaosMember]]] = {
    "classic": [ClassicChaosMember],
    "consumer": [ConsumerChaosMember],
    "mixed": [ClassicChaosMember, ConsumerChaosMember],
}

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "250",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "offsets.topic.num.partitions": "3",
}


def check_that_promises_hold(kinds: list[type[ChaosMember]], *, seconds: float) -> None:
    """Checks one owner per generation, no commit lost or moved back, every record read, and a settled end."""
    with ottla.testing.cluster(settings=SETTINGS) as cluster:
        topic = create_topic(cluster.bootstrap, PARTITIONS)
        chaos = Chaos(cluster, topic, kinds, seconds)
        asyncio.run(chaos.run())
        assert chaos.missing() == {}
        counts = chaos.witness.counts
        assert counts["assignments"] > 2 * MEMBERS, counts
        assert counts["commits"] > PARTITIONS, counts
        assert counts["disconnected"] > 0, counts
        assert "Traceback" not in cluster.node(1).output, cluster.node(1).output[-3000:]


class Chaos:
    def __init__(self, cluster: ottla.testing.Cluster, topic: str, kinds: list[Any], seconds: float) -> None:
        self.cluster = cluster
        self.topic = topic
        self.kinds = kinds
        self.seconds = seconds
        self.rng = random.Random(SEED)
        self.witness = Witness(PARTITIONS, is_mixed=len(kinds) > 1)
        self.members: list[ChaosMember] = []
        # Unused instance ids of static members; a member that leaves returns its id.
        self.names = [f"static-{number}" for number in range(STATIC_MEMBERS)]
        self.produced = [0] * PARTITIONS
        # Idempotent, because a repeated record would make the counts wrong.
        self.producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5, "enable.idempotence": True})
        answer = ask(cluster.node(1), MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12)
        ConsumerChaosMember.topic_id = answer.topics[0].topic_id
        # The first FindCoordinator request creates the topic of committed offsets.
        wait_until(self.has_coordinator, "there is a coordinator")

    def has_coordinator(self) -> bool:
        (answer,) = ask(self.cluster.node(1), FindCoordinatorRequest(coordinator_keys=["chaos"]), 4).coordinators
        return bool(answer.error_code == 0)

    async def run(self) -> None:
        for _ in range(MEMBERS):
            self.add()
        background = asyncio.create_task(self.produce())
        begin = time.monotonic()
        has_crashed = False
        while time.monotonic() < begin + self.seconds:
            await self.disturb()
            if time.monotonic() > begin + self.seconds / 2 and not has_crashed:
                has_crashed = True
                self.crash_node()
            self.check_alive(background)
            await asyncio.sleep(self.rng.uniform(0.05, 0.5))
        background.cancel()
        while len(self.members) < MEMBERS:
            self.add()
        # The producer may hold records that it has not sent yet.
        assert self.producer.flush(60) == 0
        await self.settle()
        await asyncio.gather(*(member.leave() for member in self.members))

    def add(self) -> None:
        instance_id = self.names.pop() if self.names and self.rng.random() < 0.5 else None
        kind = self.rng.choice(self.kinds)
        member = kind(self.cluster.node(1).address, "chaos", self.topic, self.witness, instance_id)
        self.members.append(member)
        member.start()

    async def disturb(self) -> None:
        action = self.rng.choices(["join", "leave", "crash", "freeze"], [4, 2, 2, 2])[0]
        self.witness.counts[action] += 1
        if action == "join" or not self.members:
            if len(self.members) < MEMBERS:
                self.add()
            return
        member = self.rng.choice(self.members)
        if action == "freeze":
            # Some shorter than a session, some longer.
            member.freeze(self.rng.uniform(0.3, 6))
            return
        self.members.remove(member)
        if action == "crash":
            await member.crash()
        else:
            asyncio.get_running_loop().create_task(self.send_away(member))
            return
        self.give_name_back(member)

    def crash_node(self) -> None:
        """Kills the coordinator; after its restart it must have every acknowledged commit."""
        self.cluster.node(1).kill()
        self.cluster.node(1).start()

    async def send_away(self, member: ChaosMember) -> None:
        await member.leave()
        self.give_name_back(member)

    def give_name_back(self, member: ChaosMember) -> None:
        if member.instance_id is not None:
            self.names.append(member.instance_id)

    def check_alive(self, *tasks: asyncio.Task[None]) -> None:
        """Raises the exception of a failed task at once."""
        for task in [*tasks, *(member.task for member in self.members)]:
            if task is not None and task.done():
                task.result()

    async def produce(self) -> None:
        while True:
            for partition in self.rng.sample(range(PARTITIONS), 10):
                self.producer.produce(self.topic, b"x" * 50, partition=partition)
                self.produced[partition] += 1
            self.producer.poll(0)
            await asyncio.sleep(0.05)

    async def settle(self) -> None:
        """Waits, with no more changes, until every partition has an owner and all records are read and committed."""
        deadline = time.monotonic() + SETTLE_SECONDS_MAX
        while not self.settled():
            self.check_alive()
            assert time.monotonic() < deadline, (
                f"seed {SEED}: the group does not settle: no member got {self.missing()}, it counted "
                f"{dict(self.witness.counts)}, owned are {sorted(len(member.positions) for member in self.members)}"
            )
            await asyncio.sleep(0.1)

    def settled(self) -> bool:
        owned = [partition for member in self.members for partition in member.positions]
        committed = all(self.witness.acknowledged[number] == self.produced[number] for number in range(PARTITIONS))
        return sorted(owned) == list(range(PARTITIONS)) and committed and not self.missing()

    def missing(self) -> dict[int, list[int]]:
        """Records that no member has read."""
        missing = {
            partition: sorted(set(range(count)) - self.witness.delivered[partition])
            for partition, count in enumerate(self.produced)
        }
        return {partition: offsets for partition, offsets in missing.items() if offsets}
