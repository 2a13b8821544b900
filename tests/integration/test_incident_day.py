"""A day of incidents: each is seen by `ottla doctor`, and is over after the command that the doctor names."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ottla.testing
from ottla.cli.app import run as run_command
from ottla.client.admin import AdminClient
from ottla.client.consumer import Consumer, ConsumerSettings
from ottla.client.producer import Producer
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.model.ids import TopicPartition
from ottla.records.build import build_batch
from ottla.records.record import Record
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData

SETTINGS = {
    "broker.session.timeout.ms": "1000",
    "broker.heartbeat.interval.ms": "200",
    "replica.lag.time.max.ms": "1000",
    "replica.fetch.wait.max.ms": "200",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "leader.imbalance.check.interval.seconds": "1",
    "offsets.topic.num.partitions": "3",
    # A transaction that nobody coordinates can only be made where nobody checks.
    "transaction.partition.verification.enable": "false",
}
WAIT_SECONDS_MAX = 40.0

Doctor = Callable[..., list[dict[str, str]]]
Command = Callable[[str], None]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.testing.Cluster]:
    with ottla.testing.cluster(nodes=3, settings=SETTINGS) as running:
        words = ["topics", "create", "day", "-p", "3", "-r", "3", "-c", "min.insync.replicas=2"]
        assert run_command([*words, "-b", running.bootstrap]) == 0
        yield running


@pytest.fixture
def doctor(cluster: ottla.testing.Cluster, capsys: pytest.CaptureFixture[str]) -> Doctor:
    """What the doctor finds wrong; with a name, waits until such a thing is there, or with `gone` until it is not."""

    def look() -> list[dict[str, str]]:
        capsys.readouterr()
        words = ["doctor", "--json", "--seconds", "0.5", "--transaction-minutes", "0"]
        code = run_command([*words, "-b", cluster.bootstrap])
        found = [one for one in json.loads(capsys.readouterr().out)["findings"] if one["severity"] == "wrong"]
        assert code == (1 if found else 0)
        return found

    def wait(check: str, *, gone: bool = False) -> list[dict[str, str]]:
        deadline = time.monotonic() + WAIT_SECONDS_MAX
        while True:
            found = [one for one in look() if one["check"] == check]
            if bool(found) != gone:
                return found
            assert time.monotonic() < deadline, f"{check} {'is still there' if gone else 'was never seen'}"

    return wait


@pytest.fixture
def command(cluster: ottla.testing.Cluster) -> Command:
    """Runs the command that a finding names."""

    def call(fix: str) -> None:
        found = re.search(r"ottla ([a-z].*)$", fix)
        assert found is not None, fix
        words = [*found[1].split(), "-b", cluster.bootstrap]
        if words[0] in ("transactions", "elect-leaders"):
            words.append("--yes")
        assert run_command(words) == 0

    return call


def settings(cluster: ottla.testing.Cluster) -> ClientSettings:
    return ClientSettings(bootstrap_servers=parse_bootstrap(cluster.bootstrap))


def test_a_dead_node(cluster: ottla.testing.Cluster, doctor: Doctor) -> None:
    cluster.node(3).kill()
    assert "Broker 3" in doctor("brokers")[0]["what"]
    assert "Broker 3 is behind" in doctor("under-replicated")[0]["what"]
    assert "start it again" in doctor("brokers")[0]["fix"]
    cluster.node(3).start()
    doctor("brokers", gone=True)
    doctor("under-replicated", gone=True)


def test_a_follower_that_does_not_follow(cluster: ottla.testing.Cluster, doctor: Doctor) -> None:
    os.kill(cluster.node(2).pid, signal.SIGSTOP)
    try:
        (finding,) = doctor("under-replicated")
        assert "Broker 2 is behind" in finding["what"]
        assert "Broker 2" in doctor("brokers")[0]["what"]
    finally:
        os.kill(cluster.node(2).pid, signal.SIGCONT)
    doctor("under-replicated", gone=True)
    doctor("brokers", gone=True)


def test_a_stuck_consumer(cluster: ottla.testing.Cluster, doctor: Doctor, command: Command) -> None:
    found: list[dict[str, str]] = []

    async def get_stuck() -> None:
        async with Producer(settings(cluster)) as producer:
            for number in range(10):
                await producer.send("day", b"%d" % number, partition=number % 3)
        how = ConsumerSettings(group_id="stuck", auto_commit=False, auto_offset_reset="earliest")
        async with Consumer(settings(cluster), how) as consumer:
            await consumer.subscribe(["day"])
            await consumer.poll(10_000, max_records=1)
            await consumer.commit({TopicPartition("day", number): 0 for number in range(3)})
            # It reads no more, but its heartbeats go on: to the group it is alive.
            found.extend(await asyncio.to_thread(doctor, "groups"))

    asyncio.run(get_stuck())
    assert "stuck is" in found[0]["what"]
    for _ in range(5):
        command(found[0]["fix"])
    doctor("groups", gone=True)


def test_a_hanging_transaction(cluster: ottla.testing.Cluster, doctor: Doctor, command: Command) -> None:
    async def leave_open() -> None:
        async with AdminClient(settings(cluster)) as admin:
            info = await admin.connections.topic("day")
            batch = build_batch(
                [Record(value=b"lost", timestamp=int(time.time() * 1000) - 60_000)],
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
                topic_data=[TopicProduceData(name="day", topic_id=info.topic_id, partition_data=[data])],
            )
            response: Any = await admin.connections.ask_node(info.partitions[0].leader, request, version_max=11)
            assert response.responses[0].partition_responses[0].error_code == 0

    asyncio.run(leave_open())
    (finding,) = doctor("transactions")
    assert "day-0" in finding["what"]
    command(finding["fix"])
    doctor("transactions", gone=True)


def test_the_day_is_over(cluster: ottla.testing.Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["doctor", "--seconds", "0", "-b", cluster.bootstrap]) == 0
    sys.stdout.flush()
    assert "wrong" not in capsys.readouterr().out.replace("wrong (", "")
