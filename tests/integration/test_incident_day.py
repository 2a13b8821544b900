"""A day of incidents: metrics, console, monitor and doctor show every incident, and the doctor's command ends it.

`test_incidents_beside_brokers.py` has the incidents of certificates, logins, schemas and mirrors.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla.testing
from ottla.cli.app import run as run_command
from ottla.client.admin import AdminClient
from ottla.client.consumer import Consumer, ConsumerSettings
from ottla.client.errors import TimedOut
from ottla.client.producer import Producer, ProducerSettings
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.model.ids import TopicPartition
from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from tests.support.all_brokers import until_all_know
from tests.support.consoles import Browser, console_process
from tests.support.incidents import (
    Monitor,
    doctor_findings,
    judged_groups,
    monitor_process,
    run_words,
    scraped,
    wait_for,
)

SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "200",
    "replica.lag.time.max.ms": "3000",
    "replica.fetch.wait.max.ms": "200",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "leader.imbalance.check.interval.seconds": "1",
    "offsets.topic.num.partitions": "3",
    "log.retention.check.interval.ms": "500",
    "log.initial.task.delay.ms": "500",
    "ottla.metrics.listener": "127.0.0.1:0",
    # A transaction without a coordinator can only be begun while verification is off.
    "transaction.partition.verification.enable": "false",
}
WAIT_SECONDS_MAX = 60.0
DISK_BYTES = 12 * 1024 * 1024

Doctor = Callable[..., list[dict[str, str]]]
Command = Callable[[str], None]


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file system of a few megabytes if the test may mount one, else a plain directory, which never gets full."""
    path = tmp_path_factory.mktemp("disk")
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(path)]
    is_mounted = shutil.which("mount") is not None and subprocess.run(mount, capture_output=True).returncode == 0
    yield path
    if is_mounted:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


@pytest.fixture(scope="module")
def cluster(small_disk: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ottla.testing.Cluster]:
    """Three nodes for most of the day, and a fourth whose records are on a small disk."""
    fourth = {"log.dirs": str(small_disk), "metadata.log.dir": str(tmp_path_factory.mktemp("metadata"))}
    with ottla.testing.cluster(nodes=4, settings=SETTINGS, node_settings={4: fourth}) as running:
        words = ["topics", "create", "day", "-p", "3", "-r", "3", "-c", "min.insync.replicas=2"]
        assert run_command([*words, "-b", running.bootstrap]) == 0
        yield running


@pytest.fixture(scope="module")
def console(cluster: ottla.testing.Cluster) -> Iterator[Browser]:
    with console_process(cluster.bootstrap) as running:
        yield running.browser()


@pytest.fixture(scope="module", autouse=True)
def monitor(cluster: ottla.testing.Cluster) -> Iterator[Monitor]:
    """Probes all brokers during all tests. At the end no acknowledged record is lost, and the doctor finds no fault."""
    with monitor_process(cluster.bootstrap, "--lost-after", "120") as running:
        yield running
        figures = running.stop()
    assert figures["produced"] > 0
    # Outages and errors belong to the incidents, but every acknowledged record must be there.
    assert (figures["lost"], figures["duplicated"], figures["reordered"]) == (0, 0, 0)
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    # On a busy machine a node that waits for CPU time may look unhealthy for a moment.
    while (outcome := run_words("doctor", "--seconds", "0", "-b", cluster.bootstrap))[0] != 0:
        assert time.monotonic() < deadline, outcome[1]
    assert "wrong" not in outcome[1].replace("wrong (", "")


@pytest.fixture
def topic(cluster: ottla.testing.Cluster) -> Iterator[str]:
    """A topic with the records of a single incident."""
    name = f"day-{uuid.uuid4().hex[:8]}"
    words = ["topics", "create", name, "-p", "3", "-r", "3", "-c", "min.insync.replicas=2"]
    assert run_command([*words, "-b", cluster.bootstrap]) == 0
    until_all_know([node.address for node in cluster.nodes])
    yield name
    assert run_command(["topics", "delete", name, "--yes", "-b", cluster.bootstrap]) == 0


@pytest.fixture
def doctor(cluster: ottla.testing.Cluster) -> Doctor:
    """Waits until the doctor has "wrong" findings of a check, or with `gone` until it has none; returns them."""

    def look() -> list[dict[str, str]]:
        findings = doctor_findings(cluster.bootstrap, "--seconds", "0.5", "--transaction-minutes", "0")
        return [finding for finding in findings if finding["severity"] == "wrong"]

    def wait(check: str, *, gone: bool = False) -> list[dict[str, str]]:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while True:
            matching = [finding for finding in look() if finding["check"] == check]
            if bool(matching) != gone:
                return matching
            assert time.monotonic() < deadline, f"{check} {'is still there' if gone else 'was never seen'}"

    return wait


@pytest.fixture
def command(cluster: ottla.testing.Cluster) -> Command:
    """Runs the command that a finding names."""

    def call(fix: str) -> None:
        match = re.search(r"ottla ([a-z].*)$", fix)
        assert match is not None, fix
        words = [*match[1].split(), "-b", cluster.bootstrap]
        if words[0] in ("transactions", "elect-leaders"):
            words.append("--yes")
        assert run_command(words) == 0

    return call


def settings(cluster: ottla.testing.Cluster) -> ClientSettings:
    return ClientSettings(bootstrap_servers=parse_bootstrap(cluster.bootstrap))


def scrape(node: ottla.testing.Node) -> str:
    assert node.metrics_url is not None
    return scraped(node.metrics_url)


def in_console(console: Browser, check: str) -> dict[str, Any]:
    """The doctor's finding, as the console shows it."""

    def look() -> list[dict[str, Any]]:
        findings = console.get("/api/doctor")["findings"]
        return [finding for finding in findings if finding["check"] == check and finding["severity"] == "critical"]

    return wait_for(look, f"{check} in the console")[0]


def metric(cluster: ottla.testing.Cluster, name: str, *, without: int) -> float:
    """The sum of a metric's rows over all nodes except `without`."""
    pages = [scrape(node) for node in cluster.nodes if node.node_id != without]
    row = re.compile(rf"^{name}(?:{{.*}})? (\S+)$", re.MULTILINE)
    return sum(float(value) for text in pages for value in row.findall(text))


def health(console: Browser) -> list[dict[str, str]]:
    findings: list[dict[str, str]] = console.get("/api/overview")["health"]["findings"]
    return findings


def test_a_dead_node(cluster: ottla.testing.Cluster, doctor: Doctor, console: Browser, monitor: Monitor) -> None:
    line_count = len(monitor.lines)
    cluster.node(3).kill()
    # Commands that ask every broker skip the dead broker as soon as the cluster has fenced it.
    for words in (["groups", "list"], ["transactions", "list"], ["log-dirs"]):
        assert run_command([*words, "-b", cluster.bootstrap]) == 0
    assert run_command(["configs", "describe", "--broker", "3", "-b", cluster.bootstrap]) == 1
    assert "Broker 3" in doctor("brokers")[0]["what"]
    assert "Broker 3 is behind" in doctor("under-replicated")[0]["what"]
    assert "start it again" in doctor("brokers")[0]["fix"]
    assert metric(cluster, "kafka_controller_kafkacontroller_fencedbrokercount", without=3) > 0
    assert metric(cluster, "kafka_server_replicamanager_underreplicatedpartitions", without=3) > 0
    wait_for(
        lambda: any("Broker 3 is not running" in finding["title"] for finding in health(console)),
        "the dead node in the console",
    )
    assert in_console(console, "brokers")["command"] == "ottla cluster unregister --id 3"
    wait_for(lambda: 3 in monitor.outages(line_count), "the outage of broker 3")
    cluster.node(3).start()
    doctor("brokers", gone=True)
    doctor("under-replicated", gone=True)


def test_a_follower_that_does_not_follow(
    cluster: ottla.testing.Cluster, doctor: Doctor, console: Browser, monitor: Monitor
) -> None:
    line_count = len(monitor.lines)
    os.kill(cluster.node(2).pid, signal.SIGSTOP)
    try:
        (finding,) = doctor("under-replicated")
        assert "Broker 2 is behind" in finding["what"]
        assert "Broker 2" in doctor("brokers")[0]["what"]
        assert metric(cluster, "kafka_cluster_partition_underreplicated", without=2) > 0
        wait_for(
            lambda: any("fewer in-sync replicas" in finding["title"] for finding in health(console)),
            "the follower in the console",
        )
        # Its own partitions have an outage, and so have partitions that need it for acks=all, until it is out of sync.
        wait_for(lambda: 2 in monitor.outages(line_count), "the outage of broker 2")
    finally:
        os.kill(cluster.node(2).pid, signal.SIGCONT)
    doctor("under-replicated", gone=True)
    doctor("brokers", gone=True)


def test_a_stuck_consumer(
    cluster: ottla.testing.Cluster, doctor: Doctor, command: Command, console: Browser, topic: str
) -> None:
    findings: list[dict[str, str]] = []

    async def get_stuck() -> None:
        async with Producer(settings(cluster)) as producer:
            for number in range(10):
                await producer.send(topic, b"%d" % number, partition=number % 3)
        consumer_settings = ConsumerSettings(group_id="stuck", auto_commit=False, auto_offset_reset="earliest")
        async with Consumer(settings(cluster), consumer_settings) as consumer:
            await consumer.subscribe([topic])
            await consumer.poll(10_000, max_records=1)
            await consumer.commit({TopicPartition(topic, number): 0 for number in range(3)})
            # The consumer does not read any more, but its heartbeats continue: the coordinator considers it alive.
            findings.extend(await asyncio.to_thread(doctor, "groups"))
            lags = [await asyncio.to_thread(scrape, node) for node in cluster.nodes]
            assert any('kafka_consumergroup_lag{consumergroup="stuck"' in text for text in lags)
            judged = await asyncio.to_thread(judged_groups, cluster.bootstrap, "^stuck$")
            assert judged == {"stuck": "STALLED"}
            group = await asyncio.to_thread(console.get, "/api/groups/stuck")
            assert group["lag"] == 10
            finding = await asyncio.to_thread(in_console, console, "groups")
            assert finding["fix"]["path"].startswith("/api/groups/")

    asyncio.run(get_stuck())
    # The monitor's own group may be between two commits.
    (finding,) = [finding for finding in findings if finding["what"].startswith("stuck is")]
    for _ in range(5):
        command(finding["fix"])
    doctor("groups", gone=True)


def test_a_hanging_transaction(
    cluster: ottla.testing.Cluster, doctor: Doctor, command: Command, console: Browser, topic: str
) -> None:
    async def leave_open() -> None:
        async with AdminClient(settings(cluster)) as admin:
            info = await admin.connections.topic(topic)
            batch = build_batch(
                [Record(value=b"lost", timestamp=int(time.time() * 1000) - 3_600_000)],
                producer_id=4_000_000,
                producer_epoch=0,
                base_sequence=0,
                is_transactional=True,
            )
            data = PartitionProduceData(index=0, records=memoryview(batch))
            request = ProduceRequest(
                transactional_id="nobody",
                acks=-1,
                timeout_ms=5_000,
                topic_data=[TopicProduceData(name=topic, topic_id=info.topic_id, partition_data=[data])],
            )
            response: Any = await admin.connections.ask_node(info.partitions[0].leader, request, version_max=11)
            assert response.responses[0].partition_responses[0].error_code == 0

    asyncio.run(leave_open())
    (finding,) = doctor("transactions")
    assert f"{topic}-0" in finding["what"]
    late = "kafka_server_replicamanager_partitionswithlatetransactionscount"
    assert sum(f"{late} 1\n" in scrape(node) for node in cluster.nodes) == 1
    asyncio.run(wait_behind_it(cluster, topic))
    (hanging,) = console.get("/api/transactions/hanging")["items"]
    assert (hanging["topic"], hanging["partition"]) == (topic, 0)
    assert in_console(console, "transactions")["fix"]["path"] == "/api/transactions/abort"
    command(finding["fix"])
    doctor("transactions", gone=True)


async def wait_behind_it(cluster: ottla.testing.Cluster, topic: str) -> None:
    """A read_committed group stops before the open transaction; `ottla monitor lag` reports it."""
    consumer_settings = ConsumerSettings(
        group_id="careful", auto_commit=False, auto_offset_reset="earliest", read_committed=True
    )
    async with Producer(settings(cluster)) as producer, Consumer(settings(cluster), consumer_settings) as consumer:
        await (await producer.send(topic, b"behind the transaction", partition=0))
        await consumer.subscribe([topic])
        await consumer.poll(10_000)
        await consumer.commit()
        judged = await asyncio.to_thread(judged_groups, cluster.bootstrap, "^careful$")
    assert judged == {"careful": "STALLED"}


def test_a_full_disk(
    cluster: ottla.testing.Cluster,
    small_disk: Path,
    doctor: Doctor,
    command: Command,
    console: Browser,
    monitor: Monitor,
) -> None:
    if not small_disk.is_mount():
        pytest.skip("nothing may be mounted here")
    words = ["topics", "create", "big", "--replica-assignment", "4:1", "-b", cluster.bootstrap]
    for setting in ("segment.bytes=1048576", "file.delete.delay.ms=0"):
        words += ["-c", setting]
    assert run_command(words) == 0
    line_count = len(monitor.lines)

    async def fill(size: int, timeout_ms: int) -> str:
        producer_settings = ProducerSettings(
            acks=1,
            linger_ms=0,
            batch_size=600_000,
            request_timeout_ms=timeout_ms,
            delivery_timeout_ms=timeout_ms,
            idempotent=False,
        )
        async with Producer(settings(cluster), producer_settings) as producer:
            for _ in range(2 * DISK_BYTES // size):
                try:
                    await (await producer.send("big", b"x" * size, partition=0))
                except TimedOut as error:
                    return str(error)
        raise AssertionError("the disk never got full")

    assert "KAFKA_STORAGE_ERROR" in asyncio.run(fill(500_000, 4_000))
    # Fill the last bytes, too, where the small records of the monitor would still fit.
    for size in (50_000, 4_000):
        asyncio.run(fill(size, 1_500))
    metrics = scrape(cluster.node(4))
    assert (
        float(re.findall(rf'ottla_log_directory_usable_bytes{{.*"{small_disk}"}} (\S+)', metrics)[0]) < DISK_BYTES / 10
    )
    failed = re.findall(r'brokertopicmetrics_failedproducerequests_total{topic="big"} (\d+)', metrics)
    assert int(failed[0]) > 0
    (finding,) = doctor("disks")
    assert f"{small_disk} of broker 4 has" in finding["what"]
    assert in_console(console, "disks")["fix"]["path"] == "/api/topics/big/settings"
    wait_for(lambda: 4 in monitor.outages(line_count), "the outage of broker 4")
    command(finding["fix"])
    doctor("disks", gone=True)

    async def write_again() -> None:
        async with Producer(settings(cluster)) as producer:
            await (await producer.send("big", b"there is room", partition=0))

    asyncio.run(write_again())
    doctor("under-replicated", gone=True)
    assert run_command(["topics", "delete", "big", "--yes", "-b", cluster.bootstrap]) == 0
