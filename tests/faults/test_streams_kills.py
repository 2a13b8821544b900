"""Applications of `ottla.streams` emit exactly what an undisturbed run emits, whatever is killed meanwhile."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from confluent_kafka import Producer

import ottla.testing
from ottla.client.admin.topics import NewTopic
from tests.faults.test_exactly_once import Killer
from tests.streams.live import Live
from tests.support.copiers import CLUSTER_SETTINGS
from tests.support.kept_logs import keep_logs
from tests.support.streams_under_kills import INPUTS, TOPOLOGIES, Input, differences, make_input

pytestmark = [pytest.mark.faults, pytest.mark.timeout(0)]

PROGRAM = "tests.support.programs.streams_applications"
ROOT = Path(__file__).resolve().parents[2]
PARTITIONS = 3


class Instance:
    """A process with a worker for every topology."""

    def __init__(self, bootstrap: Callable[[], str], directory: Path, guarantee: str, kinds: list[str]) -> None:
        self._bootstrap = bootstrap
        self._directory = directory
        self._arguments = [guarantee, "1", *kinds]
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(exist_ok=True)

    def start(self) -> None:
        words = [sys.executable, "-m", PROGRAM, self._bootstrap(), str(self._directory), *self._arguments]
        with (self._directory / "output").open("ab") as output:
            self._process = subprocess.Popen(words, cwd=ROOT, stdout=output, stderr=output)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()


class Run:
    """A cluster, instances, and records that are written while they work."""

    def __init__(
        self,
        cluster: ottla.testing.Cluster,
        directory: Path,
        guarantee: str,
        random: Random,
        *,
        instances: int = 2,
        partitions: int = PARTITIONS,
    ) -> None:
        self._cluster = cluster
        self._directory = directory
        self._random = random
        self.kinds = list(TOPOLOGIES)
        self.live = Live(cluster.bootstrap)
        topics = [NewTopic(name=name, partitions=partitions, replication_factor=3) for name in (*INPUTS, *self.kinds)]
        self.live.admin.call(lambda admin: admin.topics.create(topics))
        # Foreign-key joins expect keys where Kafka's own partitioner puts them.
        settings = {"enable.idempotence": True, "linger.ms": 5, "partitioner": "murmur2_random"}
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, **settings})
        self.written: list[Input] = []
        self._begin_ms = int(time.time() * 1000)
        self.instances = [self.new_instance(number, guarantee) for number in range(instances)]

    def new_instance(self, number: int, guarantee: str) -> Instance:
        return Instance(lambda: self._cluster.bootstrap, self._directory / f"i{number}", guarantee, self.kinds)

    def write(self, count: int) -> None:
        for _ in range(count):
            record = make_input(len(self.written), self._random, self._begin_ms)
            self._producer.produce(record.topic, record.value, record.key, timestamp=record.timestamp)
            self.written.append(record)
        self._producer.poll(0)

    def keep_running(self) -> None:
        for instance in self.instances:
            if not instance.is_running:
                instance.start()

    def committed(self, kind: str) -> int:
        """The sum of all offsets."""
        offsets = self.live.admin.call(lambda admin: admin.groups.offsets(f"app-{kind}"))
        return sum(offset.offset for offset in offsets.values())

    def finish(self) -> dict[str, str]:
        """Waits until everything is processed; returns the differences by topology."""
        assert self._producer.flush(120) == 0
        end = time.monotonic() + 90
        differences_by_kind: dict[str, str] = {}
        while time.monotonic() < end:
            self.keep_running()
            time.sleep(2)
            lags = {kind: self.live.lag(f"app-{kind}") for kind in self.kinds}
            if any(lag != 0 for lag in lags.values()):
                differences_by_kind = {kind: f"a lag of {lag}" for kind, lag in lags.items() if lag != 0}
                continue
            differences_by_kind = {kind: differences(kind, self.written, self.live.read(kind)) for kind in self.kinds}
            if not any(differences_by_kind.values()):
                break
        for instance in self.instances:
            instance.stop()
        return differences_by_kind

    def close(self) -> None:
        for instance in self.instances:
            instance.kill()
        self.live.close()


def disturb(run: Run, killer: Killer, random: Random, seconds: float) -> int:
    end, next_kill, kills = time.monotonic() + seconds, time.monotonic() + 8, 0
    while time.monotonic() < end:
        run.keep_running()
        run.write(10)
        time.sleep(0.05)
        killer()
        if time.monotonic() > next_kill:
            random.choice(run.instances).kill()
            kills += 1
            next_kill = time.monotonic() + random.uniform(4, 10)
    killer.end()
    return kills


def test_all_topologies_are_exact_through_kills(exactly_once_seconds: float, faults_seed: int, tmp_path: Path) -> None:
    random = Random(faults_seed)
    with (
        ottla.testing.cluster(nodes=3, controllers=3, settings=CLUSTER_SETTINGS) as cluster,
        keep_logs(cluster, tmp_path / "logs"),
    ):
        run = Run(cluster, tmp_path, "exactly_once_v2", random)
        try:
            kills = disturb(run, Killer(cluster, random), random, exactly_once_seconds)
            differences_by_kind = run.finish()
        finally:
            run.close()
    assert not any(differences_by_kind.values()), f"after {kills} kills of instances: {differences_by_kind}"


def test_without_transactions_kills_show(faults_seed: int, tmp_path: Path) -> None:
    """The control: at least once, the same kills lead to results that an undisturbed run does not have."""
    random = Random(faults_seed)
    with ottla.testing.cluster(nodes=3, controllers=3, settings=CLUSTER_SETTINGS) as cluster:
        run = Run(cluster, tmp_path, "at_least_once", random)
        try:
            disturb(run, Killer(cluster, random), random, 40.0)
            assert run._producer.flush(120) == 0
            time.sleep(10)
            seen = run.live.read("stateless")
        finally:
            run.close()
    assert len(set(seen)) < len(seen), "no record was written twice"
