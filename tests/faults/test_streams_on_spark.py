"""Streams applications on Spark while drivers, executors, Python workers and brokers are killed: results stay exact."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Producer

import ottla.testing
from ottla.client.admin.topics import NewTopic
from tests.streams.live import Live
from tests.support.copiers import CLUSTER_SETTINGS
from tests.support.kept_logs import keep_logs
from tests.support.spark_pipeline import Pipeline
from tests.support.streams_under_kills import INPUTS, TOPOLOGIES, Input, differences, make_input
from tests.support.victims import victims

pytestmark = [pytest.mark.faults, pytest.mark.spark, pytest.mark.timeout(0)]

PROGRAM = "tests.support.programs.streams_on_spark"
PARTITIONS = 2
# Two executors. Every application has a core, and all of them fit on one executor.
MASTER = f"local-cluster[2,{len(TOPOLOGIES)},1024]"
VICTIMS = ("driver", "executor", "worker", "broker")
# The time limit for all applications to commit again after a kill.
START_SECONDS = 600.0
PATIENCE_SECONDS = 600.0


class Run:
    """A driver with an application for every topology, and records that are written while it works."""

    def __init__(
        self, cluster: ottla.testing.Cluster, directory: Path, random: Random, *, guarantee: str, mode: str
    ) -> None:
        self._cluster = cluster
        self._random = random
        self.kinds = list(TOPOLOGIES)
        self.live = Live(cluster.bootstrap)
        topics = [NewTopic(name=name, partitions=PARTITIONS, replication_factor=3) for name in (*INPUTS, *self.kinds)]
        self.live.admin.call(lambda admin: admin.topics.create(topics))
        settings = {"enable.idempotence": True, "linger.ms": 5, "partitioner": "murmur2_random"}
        self.producer = Producer({"bootstrap.servers": cluster.bootstrap, **settings})
        self.written: list[Input] = []
        self._begin_ms = int(time.time() * 1000)
        self.pipeline = Pipeline(
            directory,
            program=PROGRAM,
            bootstrap=cluster.bootstrap,
            master=MASTER,
            guarantee=guarantee,
            mode=mode,
            kinds=",".join(self.kinds),
            state=str(directory / "state"),
        )

    def write(self, count: int) -> None:
        for _ in range(count):
            record = make_input(len(self.written), self._random, self._begin_ms)
            self.producer.produce(record.topic, record.value, record.key, timestamp=record.timestamp)
            self.written.append(record)
        self.producer.poll(0)

    def keep_running(self) -> None:
        if not self.pipeline.running:
            self.pipeline.start()

    def committed(self, kind: str) -> int:
        offsets = self.live.admin.call(lambda admin: admin.groups.offsets(f"app-{kind}"))
        return sum(offset.offset for offset in offsets.values())

    def wait_for_progress(self) -> None:
        """Waits until every application has made a new commit."""
        before = {kind: self.committed(kind) for kind in self.kinds}
        end = time.monotonic() + START_SECONDS
        while waiting := [kind for kind in self.kinds if self.committed(kind) <= before[kind]]:
            assert time.monotonic() < end, f"{waiting} commit nothing: {self.pipeline.said()}"
            self.keep_running()
            self.write(20)
            time.sleep(0.2)

    def kill(self, victim: str) -> bool:
        if victim == "broker":
            node = self._cluster.node(self._random.randrange(1, 4))
            node.kill()
            time.sleep(self._random.uniform(0, 3))
            node.start()
            return True
        if victim == "driver":
            self.pipeline.kill_driver()
            return True
        return self.pipeline.kill_worker(self._random, executor=victim == "executor", is_connected=True)

    def finish(self) -> dict[str, str]:
        """Waits until everything is processed; returns the differences by topology."""
        assert self.producer.flush(120) == 0
        end = time.monotonic() + PATIENCE_SECONDS
        differences_by_kind: dict[str, str] = {}
        while time.monotonic() < end:
            self.keep_running()
            time.sleep(2)
            lags = {kind: self.live.lag(f"app-{kind}") for kind in self.kinds}
            differences_by_kind = {kind: f"a lag of {lag}" for kind, lag in lags.items() if lag != 0}
            if differences_by_kind:
                continue
            differences_by_kind = {kind: differences(kind, self.written, self.live.read(kind)) for kind in self.kinds}
            if not any(differences_by_kind.values()):
                break
        return differences_by_kind


def disturb(run: Run, random: Random, seconds: float) -> Counter[str]:
    killed = Counter[str]()
    run.keep_running()
    for victim in victims(random, VICTIMS, seconds=seconds):
        run.wait_for_progress()
        time.sleep(random.uniform(0, 2))
        run.write(50)
        killed[victim] += run.kill(victim)
        print(f"{victim} killed after {len(run.written)} records", flush=True)
    return killed


@pytest.mark.parametrize("mode", ["job", "query"])
def test_results_are_exact_through_kills(
    exactly_once_seconds: float, faults_seed: int, tmp_path: Path, mode: str
) -> None:
    random = Random(faults_seed)
    with (
        ottla.testing.cluster(nodes=3, controllers=3, settings=CLUSTER_SETTINGS) as cluster,
        keep_logs(cluster, tmp_path / "logs"),
    ):
        run = Run(cluster, tmp_path, random, guarantee="exactly_once_v2", mode=mode)
        with run.pipeline:
            killed = disturb(run, random, exactly_once_seconds)
            differences_by_kind = run.finish()
        run.live.close()
    assert not any(differences_by_kind.values()), f"after {dict(killed)}: {differences_by_kind}"
    assert all(killed[victim] for victim in VICTIMS), f"some kinds of process were not killed: {killed}"


def test_without_transactions_killed_executors_show(faults_seed: int, tmp_path: Path) -> None:
    """The control: at least once, what was processed since the last commit is processed again."""
    random = Random(faults_seed)
    with ottla.testing.cluster(nodes=3, controllers=3, settings=CLUSTER_SETTINGS) as cluster:
        run = Run(cluster, tmp_path, random, guarantee="at_least_once", mode="job")
        with run.pipeline:
            run.keep_running()
            twice = 0
            for _ in range(6):
                run.wait_for_progress()
                run.write(200)
                time.sleep(1)
                run.kill("executor")
                run.wait_for_progress()
                seen = run.live.read("stateless")
                twice = len(seen) - len(set(seen))
                if twice:
                    break
        run.live.close()
    assert twice, "no record was written twice"
