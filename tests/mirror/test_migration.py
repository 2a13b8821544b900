"""A cluster moves to another one by `ottla migrate copy|verify|switch|report`, from Apache Kafka under load as well."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import pytest

from ottla.client.admin import AdminClient
from ottla.client.admin.groups import CommittedOffset
from ottla.client.consumer import Consumer
from ottla.client.producer import Producer
from ottla.mirror.migration.settings import migration_settings
from ottla.mirror.settings import MirrorError
from ottla.model.ids import TopicPartition
from ottla.testing.clusters import Cluster, cluster, node_environment
from tests.java.conftest import require_java
from tests.mirror.flows import create, numbers_of, produce_transactions, read_all
from tests.support.brokers import ApacheKafka

COMMAND = [sys.executable, "-m", "ottla.cli.main", "migrate"]
TOPIC = "orders"


class Bootstrap(Protocol):
    @property
    def bootstrap(self) -> str: ...


def migrate(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=120, check=False, env=node_environment()
    )


def done(*arguments: str) -> str:
    result = migrate(*arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def properties_file(directory: Path, source: Bootstrap, target: Bootstrap, **more: str) -> str:
    file = directory / "move.properties"
    lines = [
        "clusters = old, new",
        f"old.bootstrap.servers = {source.bootstrap}",
        f"new.bootstrap.servers = {target.bootstrap}",
        "old->new.enabled = true",
        *(f"{key.replace('_', '.')} = {value}" for key, value in more.items()),
    ]
    file.write_text("\n".join(lines))
    return str(file)


@contextmanager
def copying(file: str) -> Iterator[None]:
    running = subprocess.Popen(
        [*COMMAND, "copy", file], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=node_environment()
    )
    try:
        assert running.stdout is not None
        while "ready" not in (line := running.stdout.readline()):
            assert line, running.communicate()[1]
        yield
    finally:
        running.send_signal(signal.SIGTERM)
        output = running.communicate(timeout=60)
        # A switch of producers ends it. It hears of that while the switch is under way, or afterwards.
        is_ended = "failed over" in output[1] or "a failover began" in output[1]
        assert running.returncode == 0 or is_ended, output


class Load:
    """A transactional producer that writes numbers until it is stopped."""

    def __init__(self, bootstrap: str, first: int) -> None:
        self._bootstrap = bootstrap
        self.written: list[int] = []
        self._first = first
        self._ended = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._send()))

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(60)

    async def _send(self) -> None:
        number = self._first
        config = {"bootstrap.servers": self._bootstrap, "transactional.id": f"load-{self._first}"}
        async with Producer(config) as producer:
            await producer.init_transactions()
            while not self._ended.is_set():
                producer.begin_transaction()
                numbers = range(number, number + 5)
                for value in numbers:
                    await producer.send(TOPIC, b"v%d" % value, key=b"k%d" % (value % 7))
                await producer.commit_transaction()
                self.written += numbers
                number += 5
                await asyncio.sleep(0.02)


async def read_group(bootstrap: str, group: str, count: int) -> list[int]:
    config = {
        "bootstrap.servers": bootstrap,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "isolation.level": "read_committed",
        "enable.auto.commit": "false",
    }
    numbers: list[int] = []
    async with Consumer(config) as consumer:
        await consumer.subscribe([TOPIC])
        async with asyncio.timeout(60):
            while len(numbers) < count:
                numbers += [
                    int(record.value[1:]) for record in await consumer.poll(500, max_records=count - len(numbers))
                ]
                await consumer.commit()
    return numbers


def migrated(source: Bootstrap, target: Bootstrap, directory: Path, **more: str) -> None:
    """The whole way under load, with a group that continues, and back."""
    asyncio.run(prepare(source))
    file = properties_file(directory, source, target, **more)
    assert "would" not in done("copy", file, "--dry-run")
    with Load(source.bootstrap, 100) as load:
        read = asyncio.run(read_group(source.bootstrap, "readers", 40))
        with copying(file):
            wait_until(lambda: is_copied(file))
            # A group switches while producers write at the old cluster.
            assert "Group readers continues at new" in done("switch", file, "--group", "readers", "--wait", "30")
            read += asyncio.run(read_group(target.bootstrap, "readers", 30))
            done("switch", file, "--group", "readers", "--back", "--wait", "30")
            read += asyncio.run(read_group(source.bootstrap, "readers", 10))
            done("switch", file, "--all-groups", "--wait", "30")
            load.__exit__()
            wait_until(lambda: json.loads(done("report", file, "--json"))["missing_offsets"] == 0)
            assert "equal" in done("verify", file)
            assert "DIFFERENT" not in done("verify", file)
            done("switch", file, "--producers", "--yes")
    all_numbers = [*range(20), *range(30, 35), *load.written]
    with Load(target.bootstrap, 1_000_000) as after:
        wait_until(lambda: after.written)
    all_numbers += after.written
    ours = asyncio.run(read_all(target.bootstrap, TOPIC, len(all_numbers)))
    assert numbers_of(ours) == sorted(all_numbers)
    read += asyncio.run(read_group(target.bootstrap, "readers", len(all_numbers) - len(read)))
    assert sorted(read) == sorted(all_numbers), "every record once"
    report = json.loads(done("report", file, "--json"))
    assert report["state"] == "failed over"
    # All the way back.
    back = json.loads(done("back", file, "--yes", "--json"))
    assert (back["phase"], back["notCopied"], back["groups"]) == ("running", [], {"readers": 3})
    with Load(source.bootstrap, 2_000_000) as last:
        wait_until(lambda: last.written)
    all_numbers += last.written
    assert numbers_of(asyncio.run(read_all(source.bootstrap, TOPIC, len(all_numbers)))) == sorted(all_numbers)
    assert asyncio.run(read_group(source.bootstrap, "readers", len(last.written))) != []


async def prepare(source: Bootstrap) -> None:
    async with AdminClient({"bootstrap.servers": source.bootstrap}) as admin:
        await create(source, TOPIC, partitions=3, configs={"retention.ms": "99999999"})  # type: ignore[arg-type]
        await admin.quotas.alter({(("client-id", "shop"),): {"producer_byte_rate": 1e9}})
    async with Producer({"bootstrap.servers": source.bootstrap}) as producer:
        for number in range(20):
            await producer.send(TOPIC, b"v%d" % number, key=b"k%d" % (number % 7))
    # The first five are aborted.
    await produce_transactions(source.bootstrap, TOPIC, range(25, 35))


def is_copied(file: str) -> bool:
    report: dict[str, Any] = json.loads(done("report", file, "--json"))
    return bool(report["copied_partitions"] == report["partitions"] and report["missing_offsets"] < 100)


def wait_until(condition: Any) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.2)


@pytest.mark.faults
def test_a_cluster_of_ottla_moves(tmp_path: Path) -> None:
    with cluster() as source, cluster() as target:
        migrated(source, target, tmp_path)
        assert asyncio.run(quotas_of(target)) == {(("client-id", "shop"),): {"producer_byte_rate": 1e9}}


@pytest.mark.faults
@pytest.mark.java
def test_apache_kafka_moves_under_load(tmp_path: Path) -> None:
    require_java()
    with ApacheKafka(tmp_path / "kafka", heap="512M") as source, cluster() as target:
        migrated(source, target, tmp_path)


async def quotas_of(where: Cluster) -> dict[Any, dict[str, float]]:
    async with AdminClient({"bootstrap.servers": where.bootstrap}) as admin:
        return await admin.quotas.describe()


def test_a_difference_is_found(tmp_path: Path) -> None:
    with cluster() as source, cluster() as target:
        asyncio.run(prepare(source))
        file = properties_file(tmp_path, source, target, ottla_offsets="translated")
        done("copy", file, "--until-copied")
        assert "equal" in done("verify", file)
        # A record that the mirror has not written. The map does not know it, and does not compare behind its end.
        rows = json.loads(done("verify", file, "--json"))
        assert all(row["equal"] for row in rows)
        assert sum(row["sourceRecords"] for row in rows) == 25
        other = properties_file(tmp_path, source, target, ottla_offsets="exact")
        result = migrate("verify", other)
        assert result.returncode == 1
        assert "DIFFERENT" in result.stdout
        assert "partitions differ" in result.stderr


def test_what_cannot_be_switched_is_said(tmp_path: Path) -> None:
    with cluster() as source, cluster() as target:
        asyncio.run(prepare(source))
        file = properties_file(tmp_path, source, target)
        assert "add --group NAME" in migrate("switch", file).stderr
        assert "ottla migrate back" in migrate("switch", file, "--producers", "--back").stderr
        assert "not copied yet" in migrate("switch", file, "--producers", "--yes").stderr
        asyncio.run(read_group(source.bootstrap, "readers", 5))
        done("copy", file, "--dry-run")
        refused = migrate("switch", file, "--group", "readers", "--wait", "0").stderr
        assert "no offsets in topics that are copied" in refused or "not copied yet" in refused


@pytest.mark.parametrize("mode", ["exact", "translated"])
def test_offsets_of_a_group_are_set_for_copied_partitions_alone(tmp_path: Path, mode: str) -> None:
    """A topic of its own name at the old cluster that is not copied, and a copied topic without records."""
    with cluster() as source, cluster() as target:
        file = properties_file(tmp_path, source, target, ottla_offsets=mode, topics=f"{TOPIC}, empty")

        async def make() -> None:
            for where in (source, target):
                await create(where, "apart", partitions=1)
            await prepare(source)
            await create(source, "empty", partitions=1)

        async def commit(where: Cluster, offsets: dict[str, int]) -> None:
            async with AdminClient({"bootstrap.servers": where.bootstrap}) as admin:
                new_offsets = {TopicPartition(topic, 0): CommittedOffset(offset) for topic, offset in offsets.items()}
                assert not any((await admin.groups.alter_offsets("readers", new_offsets)).values())

        async def offsets(where: Cluster) -> dict[str, int]:
            async with AdminClient({"bootstrap.servers": where.bootstrap}) as admin:
                return {
                    place.topic: committed.offset
                    for place, committed in (await admin.groups.offsets("readers")).items()
                }

        asyncio.run(make())
        asyncio.run(commit(source, {TOPIC: 1, "empty": 0}))
        assert "not copied yet" in migrate("switch", file, "--group", "readers", "--wait", "0").stderr
        done("copy", file, "--until-copied")
        done("switch", file, "--group", "readers")
        assert asyncio.run(offsets(target)) == {TOPIC: 1, "empty": 0}
        asyncio.run(commit(target, {TOPIC: 2, "empty": 77, "apart": 5}))
        done("switch", file, "--group", "readers", "--back")
        assert asyncio.run(offsets(source)) == {TOPIC: 2, "empty": 0}
        done("switch", file, "--producers", "--yes")
        assert "migrate back" in migrate("switch", file, "--group", "readers", "--back").stderr


def test_a_migration_has_one_flow_and_keeps_names() -> None:
    two = {"clusters": "a, b", "a.bootstrap.servers": "h:1", "b.bootstrap.servers": "h:2", "a->b.enabled": "true"}
    with pytest.raises(MirrorError, match="one flow"):
        migration_settings({**two, "b->a.enabled": "true", "ottla.offsets": "translated"})
    with pytest.raises(MirrorError, match="keeps the names"):
        migration_settings({**two, "replication.policy.class": "DefaultReplicationPolicy"})
