"""`ottla monitor` on a cluster of three nodes: its counts, its findings, and its judgement of groups."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import urllib.request
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
from ottla.monitor.group_watch import GroupWatch, groups_text
from ottla.monitor.lag import Status
from ottla.monitor.probe import Finding, Probe, ProbeSettings
from ottla.monitor.report import prometheus_text, report
from ottla.testing.clusters import node_environment
from tests.integration.test_cli import COMMAND

SETTINGS = {
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "200",
    "replica.lag.time.max.ms": "1500",
    "group.initial.rebalance.delay.ms": "0",
}
STEPS_SECONDS_MAX = 60.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.testing.Cluster]:
    with ottla.testing.cluster(nodes=3, settings=SETTINGS) as running:
        yield running


def client(cluster: ottla.testing.Cluster) -> ClientSettings:
    return ClientSettings(bootstrap_servers=parse_bootstrap(cluster.bootstrap))


class Watched:
    """A probe in the background of a test; `until` waits for an observation of the probe."""

    def __init__(self, cluster: ottla.testing.Cluster, **settings: Any) -> None:
        self.findings: list[Finding] = []
        self.probe = Probe(client(cluster), ProbeSettings(**settings), self.findings.append)
        self._stopped = False
        self._ready = asyncio.Event()

    async def __aenter__(self) -> Watched:
        work = self.probe.run(seconds=None, is_stopped=lambda: self._stopped, on_ready=self._ready.set)
        self._running = asyncio.ensure_future(work)
        await asyncio.wait_for(self._ready.wait(), STEPS_SECONDS_MAX)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopped = True
        await self._running

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(STEPS_SECONDS_MAX):
            while not condition():
                assert not self._running.done()
                await asyncio.sleep(0.05)

    def has_finding(self, event: str) -> bool:
        return any(finding.event == event for finding in self.findings)

    @property
    def produced(self) -> int:
        return sum(ledger.produced for ledger in self.probe.ledgers.values())


def test_every_broker_is_probed_and_the_last_line_has_the_figures(
    cluster: ottla.testing.Cluster, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["monitor", "--seconds", "1", "--interval-ms", "20", "--json", "-b", cluster.bootstrap]
    assert run_command(words) == 0
    figures = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert figures["produced"] == figures["consumed"] > 0
    assert figures["lost"] == figures["duplicated"] == figures["reordered"] == 0
    assert figures["latency"]["p99Ms"] >= figures["latency"]["p50Ms"] > 0
    assert {row["leader"] for row in figures["partitions"]} == {1, 2, 3}


def test_an_outage_is_told_while_it_lasts_and_nothing_is_lost(cluster: ottla.testing.Cluster) -> None:
    async def scenario() -> Watched:
        async with Watched(cluster, topic="outage", outage_after_seconds=0.5, interval_seconds=0.02) as watched:
            await watched.until(lambda: watched.produced > 20)
            victim = cluster.node(3)
            victim.kill()
            await watched.until(lambda: watched.has_finding("outage"))
            # The probe continues through the outage, and sees its end.
            await watched.until(lambda: watched.has_finding("outage over") and not watched.probe.outages.ongoing)
            await asyncio.to_thread(victim.start)
        return watched

    watched = asyncio.run(scenario())
    summary = report(watched.probe, watched.probe.began_at + 1)
    assert summary.is_clean
    assert summary.produced > 20
    assert summary.outages > 0
    assert summary.outage_seconds > 0


def test_a_record_that_is_written_twice_is_noticed(cluster: ottla.testing.Cluster) -> None:
    async def scenario() -> Watched:
        async with Watched(cluster, topic="twice", interval_seconds=0.02) as watched:
            await watched.until(lambda: watched.produced > 3)
            async with Consumer(client(cluster), ConsumerSettings()) as consumer:
                await consumer.assign([TopicPartition("twice", 0)])
                await consumer.seek_to_beginning()
                first = (await consumer.poll(20_000))[0]
            async with Producer(client(cluster)) as producer:
                await producer.send_and_wait("twice", first.value, partition=0)
            await watched.until(lambda: watched.has_finding("duplicate"))
        return watched

    watched = asyncio.run(scenario())
    summary = report(watched.probe, watched.probe.began_at + 1)
    assert (summary.lost, summary.duplicated) == (0, 1)
    assert not summary.is_clean
    text = "".join(prometheus_text(watched.probe, 0.0))
    assert (
        f'ottla_monitor_records_duplicated_total{{partition="0",broker="{summary.partitions[0].leader}"}} 1\n' in text
    )


def test_acknowledged_records_that_are_never_read_are_lost(cluster: ottla.testing.Cluster) -> None:
    async def scenario() -> Watched:
        async with Watched(cluster, topic="vanish", interval_seconds=0.02, lost_after_seconds=0.2) as watched:
            await watched.until(lambda: watched.produced > 3)
            # From now on the reader drops the records that it reads.
            watched.probe._on_read = lambda *_: None  # type: ignore[method-assign]
            await watched.until(lambda: watched.has_finding("lost"))
        return watched

    watched = asyncio.run(scenario())
    assert report(watched.probe, watched.probe.began_at + 1).lost > 0


def test_groups_are_judged_by_their_movement(cluster: ottla.testing.Cluster) -> None:
    async def scenario() -> None:
        topic = TopicPartition("judged", 0)
        async with (
            AdminClient(client(cluster)) as admin,
            Producer(client(cluster)) as producer,
            Consumer(client(cluster), ConsumerSettings(group_id="judged", auto_commit=False)) as consumer,
        ):
            for _ in range(5):
                await producer.send_and_wait("judged", b"x", partition=0, timestamp_ms=1_000)
            watch = GroupWatch(admin, pattern="^judged$", clock=lambda: 61.0)
            await consumer.assign([topic])
            await consumer.commit({topic: 2})
            rows = [(await watch.look())[0] for _ in range(4)]
            assert [row.status for row in rows] == [Status.OK, Status.OK, Status.STOPPED, Status.STOPPED]
            assert (rows[-1].lag, rows[-1].lag_seconds) == (3, 60.0)
            await consumer.commit({topic: 5})
            (caught_up,) = await watch.look()
            assert (caught_up.status, caught_up.lag, caught_up.lag_seconds) == (Status.OK, 0, 0.0)
            text = "".join(groups_text([caught_up]))
            assert 'ottla_monitor_group_lag_records{group="judged",topic="judged",partition="0"} 0\n' in text

    asyncio.run(scenario())


def test_metrics_are_served_and_a_signal_ends_the_run_in_order(cluster: ottla.testing.Cluster) -> None:
    command = [*COMMAND, "monitor", "-b", cluster.bootstrap, "--metrics-port", "0", "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=node_environment()
    ) as process:
        assert process.stderr is not None
        address = process.stderr.readline().split()[-1]
        assert process.stderr.readline().startswith("ready ")
        with urllib.request.urlopen(address, timeout=20) as answer:
            assert b"ottla_monitor_outages_total 0\n" in answer.read()
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=STEPS_SECONDS_MAX)
    assert process.returncode == 0
    assert json.loads(out.splitlines()[-1])["lost"] == 0
