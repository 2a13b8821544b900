"""A group of members of three kinds in separate processes, some of which are killed and restarted.

`ottla.client`, librdkafka and Java share a topic. However often members are killed (SIGKILL), in the end every
partition has one owner, all records are committed, and no record was skipped.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from ottla.client.admin import AdminClient
from ottla.client.admin.topics import NewTopic
from ottla.client.producer import Producer
from ottla.model.ids import TopicPartition
from tests.support import jars
from tests.support.brokers import QUICK_JVM_OPTIONS
from tests.support.java import PROGRAMS, java_command

__all__ = ["GROUP_SETTINGS", "STRATEGIES", "Member", "check_mixed_group"]

PARTITIONS = 6
SETTLED_SECONDS_MAX = 90.0
SESSION_MS = 3_000
HEARTBEAT_MS = 300

# Settings of the broker: a killed member is noticed within seconds.
GROUP_SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
    "group.consumer.min.heartbeat.interval.ms": "200",
}

# The protocol, and the assignor of classic groups with its names in Python clients and in Java.
STRATEGIES: dict[str, tuple[str, str, str]] = {
    "eager": ("classic", "range", "org.apache.kafka.clients.consumer.RangeAssignor"),
    "cooperative": (
        "classic",
        "cooperative-sticky",
        "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
    ),
    "consumer": ("consumer", "", ""),
}


class Member:
    """A member process, and its printed events over all restarts."""

    def __init__(self, kind: str, name: str, command: list[str], directory: Path) -> None:
        self.kind = kind
        self.name = name
        self.lives = 0
        self._command = command
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.lives += 1
        with self._output(self.lives).open("wb") as output, self._output(self.lives, "errors").open("wb") as errors:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors)

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    @property
    def is_alive(self) -> bool:
        if self._process is None:
            return False
        assert self._process.poll() is None, f"{self.name} has ended: {self._complaints()}"
        return True

    @property
    def owned(self) -> set[int]:
        """The partitions of the running process, by its last event."""
        owned: set[int] = set()
        for event in self._events(self.lives):
            if "owned" in event:
                owned = set(event["owned"])
            elif event.get("name") == "partitions_assigned":
                owned |= {row["partition"] for row in event["partitions"]}
            elif event.get("name") == "partitions_revoked":
                owned -= {row["partition"] for row in event["partitions"]}
        return owned

    @property
    def records_read(self) -> set[tuple[int, int]]:
        """Partitions and offsets of all records that the member has read, over all restarts."""
        records: set[tuple[int, int]] = set()
        for life in range(1, self.lives + 1):
            for event in self._events(life):
                if "read" in event:
                    records |= {(partition, offset) for partition, offset in event["read"]}
                elif event.get("name") == "records_consumed":
                    for row in event["partitions"]:
                        span = range(row["minOffset"], row["maxOffset"] + 1)
                        records |= {(row["partition"], offset) for offset in span}
        return records

    def _events(self, life: int) -> list[dict[str, Any]]:
        """The events of all complete lines; a kill may have cut off the last line."""
        lines = self._output(life).read_text().split("\n")[:-1]
        return [json.loads(line) for line in lines if line.startswith("{")]

    def _output(self, life: int, suffix: str = "out") -> Path:
        return self._directory / f"{self.name}-{life}.{suffix}"

    def _complaints(self) -> str:
        return self._output(self.lives, "errors").read_text()[-2_000:]


def make_members(
    kinds: Sequence[str], strategy: str, *, bootstrap: str, group: str, topic: str, directory: Path
) -> list[Member]:
    protocol, assignor, java_assignor = STRATEGIES[strategy]
    config: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "group.protocol": protocol,
        "auto.offset.reset": "earliest",
    }
    if protocol == "classic":
        timing = {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
        config |= {"partition.assignment.strategy": assignor, **timing}
    members = []
    for number, kind in enumerate(kinds):
        if kind == "java":
            command = _java_command(directory, bootstrap, group, topic, protocol, java_assignor)
        else:
            program = str(PROGRAMS / "group_member.py")
            command = [sys.executable, program, kind, json.dumps(config), topic]
        members.append(Member(kind, f"{kind}-{number}", command, directory))
    return members


def _java_command(directory: Path, bootstrap: str, group: str, topic: str, protocol: str, assignor: str) -> list[str]:
    command = [
        java_command(),
        "-Xmx96m",
        *QUICK_JVM_OPTIONS,
        f"-Dlog4j2.configurationFile={PROGRAMS / 'log4j2.properties'}",
    ]
    command += ["-cp", jars.class_path(jars.TOOLS), "org.apache.kafka.tools.VerifiableConsumer"]
    command += ["--bootstrap-server", bootstrap, "--topic", topic, "--group-id", group]
    command += ["--group-protocol", protocol, "--reset-policy", "earliest"]
    if protocol == "classic":
        properties = directory / "java.properties"
        properties.write_text(f"heartbeat.interval.ms={HEARTBEAT_MS}\n")
        command += ["--assignment-strategy", assignor, "--session-timeout", str(SESSION_MS)]
        command += ["--command-config", str(properties)]
    return command


def check_mixed_group(
    bootstrap: str, strategy: str, kinds: Sequence[str], *, kills: int, directory: Path, random: Random
) -> None:
    """Kills members while records are produced, then compares the read records with the produced ones."""
    topic = group = f"mixed-{strategy}-{random.randrange(1 << 30)}"
    members = make_members(kinds, strategy, bootstrap=bootstrap, group=group, topic=topic, directory=directory)
    try:
        asyncio.run(_run(bootstrap, topic, group, members, kills=kills, random=random))
    finally:
        for member in members:
            member.kill()


async def _run(bootstrap: str, topic: str, group: str, members: list[Member], *, kills: int, random: Random) -> None:
    cluster_config = {"bootstrap.servers": bootstrap}
    async with AdminClient(cluster_config) as admin, Producer(cluster_config) as producer:
        await admin.topics.create([NewTopic(name=topic, partitions=PARTITIONS, replication_factor=1)])
        for member in members:
            member.start()
        sent = [0] * PARTITIONS
        enough = asyncio.Event()
        producing = asyncio.ensure_future(_produce(producer, topic, sent, enough))
        await _until("every partition has one owner", lambda: _is_shared(members), members)
        for number in range(kills):
            # All kinds of members are killed in turn.
            kind = sorted({member.kind for member in members})[number % len({member.kind for member in members})]
            victim = random.choice([member for member in members if member.kind == kind])
            victim.kill()
            await asyncio.sleep(random.uniform(0.0, 1.5 * SESSION_MS / 1000))
            victim.start()
            await asyncio.sleep(random.uniform(0.0, 2.0))
        await _until("every partition has one owner", lambda: _is_shared(members), members)
        enough.set()
        await producing
        await producer.flush()
        wanted = {(partition, offset) for partition, count in enumerate(sent) for offset in range(count)}

        def is_read() -> bool:
            return wanted <= set().union(*(member.records_read for member in members))

        await _until("no record is skipped", is_read, members)
        ends = {TopicPartition(topic, partition): count for partition, count in enumerate(sent)}
        deadline = time.monotonic() + SETTLED_SECONDS_MAX
        while True:
            rows = await admin.groups.offsets(group)
            committed = {partition: row.offset for partition, row in rows.items()}
            if committed == ends:
                break
            assert time.monotonic() < deadline, f"committed is {committed}, and the ends are {ends}"
            await asyncio.sleep(0.1)
        assert _is_shared(members)


async def _produce(producer: Producer, topic: str, sent: list[int], enough: asyncio.Event) -> None:
    number = 0
    while not enough.is_set():
        partition = number % PARTITIONS
        sent[partition] += 1
        await producer.send(topic, b"%d" % number, partition=partition)
        number += 1
        await asyncio.sleep(0.002)


def _is_shared(members: list[Member]) -> bool:
    """True if every member has a share, and every partition has one owner."""
    shares = [member.owned for member in members if member.is_alive]
    owned = sorted(partition for share in shares for partition in share)
    return len(shares) == len(members) and all(shares) and owned == list(range(PARTITIONS))


async def _until(description: str, holds: Callable[[], bool], members: list[Member]) -> None:
    deadline = time.monotonic() + SETTLED_SECONDS_MAX
    while not holds():
        owned = {member.name: sorted(member.owned) for member in members}
        assert time.monotonic() < deadline, f"not reached: {description}; {owned}"
        await asyncio.sleep(0.1)
