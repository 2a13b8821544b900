"""The churn of a soak: topics, groups, connections, and nodes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, KafkaException, Producer

import ottla.testing
from ottla.client.admin.topics import NewTopic
from ottla.client.blocking import BlockingAdmin
from ottla.client.errors import ClientError
from ottla.model.errors import ErrorCode, KafkaError
from tests.soak.jobs import Findings, Job
from tests.soak.records import QUIET
from tests.support.fault_workload import wait_in_sync

__all__ = ["Groups", "Restarts", "Topics"]

CALL_S = 60.0
IS_DONE = (ErrorCode.TOPIC_ALREADY_EXISTS, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.GROUP_ID_NOT_FOUND)


class Topics(Job):
    """A topic is created, written, read by a group of its own, and deleted; every second group is deleted, too."""

    PARTITIONS = 3
    RECORDS = 30

    def __init__(self, findings: Findings, bootstrap: str, *, pause_s: float) -> None:
        super().__init__(findings)
        self.pause_s = pause_s
        self._bootstrap = bootstrap
        # librdkafka's administrator ends the process with an assertion if a coordinator moves at the wrong moment.
        self._admin = BlockingAdmin({"bootstrap.servers": bootstrap})
        self._number = 0

    def step(self) -> None:
        number, self._number = self._number, self._number + 1
        topic, group = f"churn-{number}", f"churn-{number}"
        wanted = NewTopic(name=topic, partitions=self.PARTITIONS, replication_factor=3)
        self._ask(lambda: self._admin.topics.create([wanted]))
        producer = Producer({"bootstrap.servers": self._bootstrap, "enable.idempotence": True, **QUIET})
        for place in range(self.RECORDS):
            producer.produce(topic, b"x" * 100, partition=place % self.PARTITIONS)
        if producer.flush(CALL_S):
            self.findings.report(f"records of {topic} were not acknowledged")
        self._read(topic, group, protocol=("classic", "consumer")[number % 2])
        if number % 2:
            self._ask(lambda: self._admin.groups.delete([group]))
        self._ask(lambda: self._admin.topics.delete([topic]))
        self.counts["topics created and deleted"] += 1

    def finish(self) -> None:
        self._admin.close()

    def _read(self, topic: str, group: str, *, protocol: str) -> None:
        settings = {"group.id": group, "group.protocol": protocol, "auto.offset.reset": "earliest"}
        consumer = Consumer({"bootstrap.servers": self._bootstrap, "enable.auto.commit": False, **settings, **QUIET})
        read, end = 0, time.monotonic() + CALL_S
        try:
            consumer.subscribe([topic])
            while read < self.RECORDS and time.monotonic() < end:
                read += sum(1 for message in consumer.consume(100, timeout=0.2) if message.error() is None)
            if read < self.RECORDS:
                self.findings.report(f"{group} read {read} of {self.RECORDS} records of {topic}")
            with contextlib.suppress(KafkaException):
                consumer.commit(asynchronous=False)
        finally:
            consumer.close()

    def _ask(self, call: Callable[[], dict[str, Any]]) -> None:
        """An administrator's call, repeated while nodes restart; a repeated call may find its work done."""
        end = time.monotonic() + CALL_S
        error: Exception | None = None
        while time.monotonic() < end:
            try:
                answers = call().values()
            except ClientError as lost:
                error = lost
            else:
                error = next((answer for answer in answers if isinstance(answer, KafkaError)), None)
                if not isinstance(error, KafkaError) or error.code in IS_DONE:
                    return
            time.sleep(0.2)
        self.findings.report(f"an administrator was refused for {CALL_S:.0f} s: {error!r}")


class Groups(Job):
    """Members join and leave a group that reads the ledger; after a while there is a new group, and the old expires."""

    MEMBERS = 3
    PER_GROUP = 20

    def __init__(self, findings: Findings, bootstrap: str, topic: str, *, pause_s: float) -> None:
        super().__init__(findings)
        self.pause_s = pause_s
        self._bootstrap = bootstrap
        self._topic = topic
        self._members: list[Consumer] = []
        self._number = 0

    def step(self) -> None:
        if self._number % self.PER_GROUP == 0:
            self._leave(0)
        self._leave(self.MEMBERS - 1)
        self._join()
        end = time.monotonic() + CALL_S
        # There is a partition for every member.
        while not (assignment := self._members[-1].assignment()) and time.monotonic() < end and not self.is_over:
            self._poll()
        if not assignment and not self.is_over:
            self.findings.report(f"member {self._number} of the groups had no partition after {CALL_S:.0f} s")
        self._poll()
        self._number += 1
        self.counts["members joined"] += 1

    def finish(self) -> None:
        self._leave(0)

    def _join(self) -> None:
        number = self._number // self.PER_GROUP
        settings = {"group.id": f"crowd-{number}", "group.protocol": ("classic", "consumer")[number % 2]}
        if number % 2 == 0:
            settings |= {"partition.assignment.strategy": "cooperative-sticky", "session.timeout.ms": "6000"}
        settings |= {"auto.offset.reset": "latest", "client.id": f"member-{self._number}"}
        member = Consumer({"bootstrap.servers": self._bootstrap, **settings, **QUIET})
        member.subscribe([self._topic])
        self._members.append(member)

    def _leave(self, kept: int) -> None:
        while len(self._members) > kept:
            with contextlib.suppress(KafkaException):
                self._members.pop(0).close()

    def _poll(self) -> None:
        for member in self._members:
            member.consume(200, timeout=0.05)


class Restarts(Job):
    """In the first tenth every node; later nodes 1 and 2 once in each tenth, by turns in order and killed.

    Node 3 then lives to the end: a leak shows in a process that is never restarted.
    """

    NODE_KEPT = 3

    def __init__(self, findings: Findings, cluster: ottla.testing.Cluster, topic: str, *, tenth_s: float) -> None:
        super().__init__(findings)
        self._cluster = cluster
        self._topic = topic
        self._tenth_s = tenth_s
        self._began = time.monotonic()
        self._number = 0

    def step(self) -> None:
        plan = [(0.05, self.NODE_KEPT), (0.35, 1), (0.65, 2)] if self._number < 3 else [(0.1, 1), (0.5, 2)]
        tenth, place = (0, self._number) if self._number < 3 else divmod(self._number - 3, 2)
        tenth += self._number >= 3
        share, node_id = plan[place]
        if self.wait(max(0.0, self._began + (tenth + share) * self._tenth_s - time.monotonic())):
            return
        node = self._cluster.node(node_id)
        if self._number % 4 < 2:
            node.stop()
        else:
            node.kill()
        node.start()
        wait_in_sync(self._cluster.bootstrap, self._topic, [1, 2, 3])
        self._number += 1
        self.counts["restarts"] += 1
