"""`ottla balance run` is killed with SIGKILL while replicas move, and continued by `ottla balance resume`."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

import ottla.testing
from ottla.balance.journal import Journal
from ottla.cli.app import run as run_command
from ottla.client.admin import AdminClient
from ottla.client.admin.configs import ConfigResource, ResourceType
from ottla.client.admin.topics import NewTopic
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition
from tests.support.fault_workload import FAULT_SETTINGS, NativeWriter, check, wait_until

pytestmark = pytest.mark.faults

T = TypeVar("T")
PARTITIONS = 8
KILLS = 3
# So low that a step takes seconds, and that the killed run leaves its throttles behind.
THROTTLE = 20_000
THROTTLE_AFTER = 100_000_000
SETTINGS = {
    **FAULT_SETTINGS,
    # A throttle lets the first fetch pass: a replica must need several.
    "replica.fetch.max.bytes": "4096",
    "replica.fetch.response.max.bytes": "4096",
}


def with_admin(bootstrap: str, work: Callable[[AdminClient], Awaitable[T]]) -> T:
    async def scenario() -> T:
        async with AdminClient(ClientSettings(bootstrap_servers=parse_bootstrap(bootstrap))) as admin:
            return await work(admin)

    return asyncio.run(scenario())


async def replicas(admin: AdminClient) -> dict[int, tuple[int, ...]]:
    topic = (await admin.topics.describe(["t"]))["t"]
    assert not isinstance(topic, KafkaError)
    return {partition.partition: partition.replicas for partition in topic.partitions}


async def throttles(admin: AdminClient) -> list[str]:
    resources = [ConfigResource(ResourceType.TOPIC, "t")]
    resources += [ConfigResource(ResourceType.BROKER, str(broker)) for broker in (1, 2, 3)]
    names: list[str] = []
    for entries in (await admin.configs.describe(resources)).values():
        assert not isinstance(entries, KafkaError)
        names += [
            entry.name for entry in entries if "throttled" in entry.name and entry.source.name.startswith("DYNAMIC")
        ]
    return names


def start(bootstrap: str, journal: Path, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ottla.cli.main", "balance", *words, "--journal", str(journal), "--no-guard"]
    return subprocess.Popen([*command, "-b", bootstrap], stdout=subprocess.DEVNULL)


def test_a_run_that_is_killed_again_and_again_is_continued(tmp_path: Path) -> None:
    journal = tmp_path / "journal.json"
    with ottla.testing.cluster(nodes=3, settings=SETTINGS) as cluster:
        bootstrap = cluster.bootstrap
        assignment = {number: [number % 3 + 1, (number + 1) % 3 + 1] for number in range(PARTITIONS)}
        new = NewTopic(name="t", assignment=assignment, configs={"min.insync.replicas": "1"})
        with_admin(bootstrap, lambda admin: admin.topics.create([new]))
        with NativeWriter(bootstrap, "t", PARTITIONS) as writer:
            writer.wait_for(20_000)
            words = ["run", "--drain", "3", "--yes", "--throttle", str(THROTTLE)]
            moved: set[TopicPartition] = set()
            for _ in range(KILLS):
                running = start(bootstrap, journal, *words)
                try:
                    wait_until(
                        lambda: bool(with_admin(bootstrap, lambda admin: admin.partitions.reassignments())),
                        "replicas move",
                    )
                finally:
                    running.kill()
                assert running.wait() == -9
                moved |= set(with_admin(bootstrap, lambda admin: admin.partitions.reassignments()))
                assert journal.exists()
                assert with_admin(bootstrap, throttles)
                words = ["resume"]
            assert moved
            writer.wait_for(100)
            # The journal has the low throttle too, which would make the test long.
            journal_left = Journal.read(journal)
            Journal(
                journal, journal_left.cluster_id, journal_left.steps, THROTTLE_AFTER, drained=journal_left.drained
            ).write()
            assert run_command(["balance", "resume", "--journal", str(journal), "--no-guard", "-b", bootstrap]) == 0
            writer.wait_for(100)
        after = with_admin(bootstrap, replicas)
        assert all(3 not in brokers and len(brokers) == 2 for brokers in after.values())
        assert not journal.exists()
        assert with_admin(bootstrap, throttles) == []
        check(bootstrap, "t", writer)
