"""A Kafka Streams application with exactly_once_v2 on three nodes counts exactly despite kills."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import IO

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import ottla.testing
from tests.faults.test_exactly_once import Killer
from tests.support import jars
from tests.support.copiers import CLUSTER_SETTINGS, read_keyed
from tests.support.java import PROGRAMS, compiled, java_command, unavailable_reason
from tests.support.kept_logs import keep_logs

SOURCE, TARGET = "events", "counts"
PARTITIONS = 3
KEYS = 10
INSTANCES = 2


class Instance:
    """One process of the application, with state of its own."""

    def __init__(self, number: int, directory: Path, output: IO[bytes]) -> None:
        self._state = directory / f"state-{number}"
        self._output = output
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, bootstrap: str) -> None:
        classes = compiled([PROGRAMS / "CountingStreams.java"], jar_set=jars.COMPAT)
        words = [java_command(), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        words += [f"-Dlog4j2.configurationFile={PROGRAMS / 'log4j2.properties'}"]
        words += ["-cp", f"{classes}:{jars.class_path(jars.COMPAT)}", "CountingStreams"]
        words += [bootstrap, SOURCE, TARGET, str(self._state)]
        self._process = subprocess.Popen(words, stdout=self._output, stderr=self._output)

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class Events:
    """Writes events of ten keys over time; no acknowledged event is written twice."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
        self.counts = dict.fromkeys((f"counted-{number}" for number in range(KEYS)), 0)

    def write(self, count: int) -> None:
        for number in range(count):
            key = str(number % KEYS)
            self._producer.produce(SOURCE, "event", key=key)
            self.counts[f"counted-{key}"] += 1
        self._producer.poll(0)

    def finish(self) -> None:
        assert self._producer.flush(120) == 0


@pytest.mark.faults
@pytest.mark.timeout(0)
def test_counts_are_exact_through_kills(exactly_once_seconds: float, faults_seed: int, tmp_path: Path) -> None:
    if reason := unavailable_reason(jars.COMPAT):
        pytest.skip(reason)
    random = Random(faults_seed)
    with (
        ottla.testing.cluster(nodes=3, controllers=3, settings=CLUSTER_SETTINGS) as cluster,
        keep_logs(cluster, tmp_path / "logs"),
        tempfile.TemporaryDirectory() as directory,
        tempfile.TemporaryFile() as output,
    ):
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for created in admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in (SOURCE, TARGET)]).values():
            created.result(30)
        instances = [Instance(number, Path(directory), output) for number in range(INSTANCES)]
        events = Events(cluster.bootstrap)
        killer = Killer(cluster, random)
        try:
            disturb(instances, events, killer, lambda: cluster.bootstrap, random, exactly_once_seconds)
            killer.end()
            events.finish()
            wait_for_counts(instances, events.counts, lambda: cluster.bootstrap, output)
        finally:
            for instance in instances:
                instance.kill()
        seen = read_keyed(cluster.bootstrap, TARGET, PARTITIONS)
    for key, count in events.counts.items():
        assert seen[key] == [str(number) for number in range(1, count + 1)], f"{key}: {len(seen[key])} of {count}"


def disturb(
    instances: list[Instance],
    events: Events,
    killer: Killer,
    bootstrap: Callable[[], str],
    random: Random,
    seconds: float,
) -> None:
    end = time.monotonic() + seconds
    next_kill = time.monotonic() + 8
    while time.monotonic() < end:
        for instance in instances:
            if not instance.is_running:
                instance.start(bootstrap())
        events.write(10)
        time.sleep(0.05)
        killer()
        if time.monotonic() > next_kill:
            random.choice(instances).kill()
            next_kill = time.monotonic() + random.uniform(4, 10)


def wait_for_counts(
    instances: list[Instance], counts: dict[str, int], bootstrap: Callable[[], str], output: IO[bytes]
) -> None:
    deadline = time.monotonic() + 240
    while True:
        for instance in instances:
            if not instance.is_running:
                instance.start(bootstrap())
        time.sleep(1)
        seen = read_keyed(bootstrap(), TARGET, PARTITIONS)
        if all(len(seen.get(key, ())) >= count for key, count in counts.items()):
            return
        if time.monotonic() > deadline:
            output.seek(0)
            raise AssertionError(
                f"{ {key: len(values) for key, values in seen.items()} } instead of {counts}: "
                + output.read()[-3000:].decode(errors="replace")
            )
