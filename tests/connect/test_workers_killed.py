"""Two workers of one group, of which one is killed or frozen, again and again: nothing is lost, nothing is doubled.

A frozen worker wakes up when other workers have its tasks, and acts for a moment as if it still had them.

FAULTS_ROUNDS is the number of rounds (4).
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from ottla.testing import cluster
from tests.support.connect_live import worker_properties
from tests.support.connect_reading import committed_values
from tests.support.spark_topics import Topics

pytestmark = [pytest.mark.faults, pytest.mark.spark]

ROUNDS = int(os.environ.get("FAULTS_ROUNDS", "4"))
COUNTERS = 4
# The records of a counter in a round.
EACH = 200
PLUGINS = str(Path(__file__).parents[1] / "support" / "connect_plugins")
STRING = "org.apache.kafka.connect.storage.StringConverter"
SESSION_SECONDS = 6.0


class CommandWorker:
    """`ottla connect distributed` as a process."""

    def __init__(self, directory: Path, properties: dict[str, str], number: int) -> None:
        self._file = directory / f"worker-{number}.properties"
        self._file.write_text("".join(f"{key}={text}\n" for key, text in properties.items()))
        self.log = directory / f"worker-{number}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ottla.cli.main", "connect", "distributed", str(self._file)],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    @property
    def url(self) -> str | None:
        marker = "Connect answers at "
        lines = [line for line in self.log.read_text().splitlines() if marker in line]
        return lines[-1].partition(marker)[2].strip() if lines else None

    def put(self, name: str, config: dict[str, str]) -> None:
        request = urllib.request.Request(
            f"{self.url}connectors/{name}/config",
            data=json.dumps(config).encode(),
            method="PUT",
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.status == 201

    def signal(self, number: signal.Signals) -> None:
        """Signals the whole session: driver, JVM and Python workers."""
        assert self._process is not None
        os.killpg(self._process.pid, number)
        if number is signal.SIGKILL:
            self._process.wait()

    def end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self.signal(signal.SIGKILL)


def until(holds: object, failure: str, seconds: float, *logs: Path) -> None:
    assert callable(holds)
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, failure + "".join(f"\n{log}: {log.read_text()[-3000:]}" for log in logs)
        time.sleep(0.2)


def kept(directory: Path) -> list[str]:
    return sorted(
        json.loads(line)["value"] for path in directory.glob("*.json") for line in path.read_text().splitlines()
    )


@pytest.mark.timeout(0)
def test_another_worker_takes_over_whenever_one_is_killed_or_frozen(tmp_path: Path) -> None:
    with cluster(settings={"group.initial.rebalance.delay.ms": "0"}) as broker:
        topics = Topics(broker.bootstrap)
        topic, target = topics.create(partitions=3), tmp_path / "kept"
        properties = worker_properties(
            broker.bootstrap,
            "team",
            plugin_path=PLUGINS,
            value_converter=STRING,
            session_timeout_ms=str(int(SESSION_SECONDS * 1000)),
            heartbeat_interval_ms="500",
            spark_master="local[2,4]",
        )
        workers = [CommandWorker(tmp_path, properties, number) for number in range(2)]
        logs = [worker.log for worker in workers]
        try:
            for worker in workers:
                worker.start()
            until(lambda: all(worker.url for worker in workers), "the workers do not start", 300, *logs)

            control = tmp_path / "control"
            control.mkdir()
            workers[1].put(
                "count",
                {
                    "connector.class": "CountingSource",
                    "topic": topic,
                    "until": "0",
                    "control": str(control),
                    "step": "20",
                    "partitions": str(COUNTERS),
                    "tasks.max": "2",
                },
            )
            sink = {"connector.class": "KeepingSink", "topics": topic, "directory": str(target), "tasks.max": "2"}
            workers[1].put("keep", sink)
            for number in range(ROUNDS):
                before, goal = len(kept(target)), (number + 1) * COUNTERS * EACH
                (control / "beside").write_text(str((number + 1) * EACH))
                (control / "beside").replace(control / "until")
                # One worker is hit during the round, and the other worker completes it.
                until(lambda before=before: len(kept(target)) > before, "nothing moves", 300, *logs)  # type: ignore[misc]
                victim, freezes = workers[number % 2], number % 4 >= 2
                victim.signal(signal.SIGSTOP if freezes else signal.SIGKILL)
                until(lambda goal=goal: len(kept(target)) >= goal, "no worker takes over", 300, *logs)  # type: ignore[misc]
                if freezes:
                    victim.signal(signal.SIGCONT)
                else:
                    victim.start()
                    until(lambda victim=victim: victim.url, "the worker does not come back", 300, *logs)  # type: ignore[misc]
            wanted = sorted(f"{counter}-{number}" for counter in range(COUNTERS) for number in range(ROUNDS * EACH))
            assert asyncio.run(committed_values(broker.bootstrap, topic)) == wanted
            assert kept(target) == wanted
        finally:
            for worker in workers:
                worker.end()
            topics.close()
