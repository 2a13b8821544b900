"""Exactly once: driver, Python workers, brokers and catalog are killed at random, again and again.

A topic becomes a raw table and a compacted one a table with a row for each key, while records arrive. Every kill waits
until the tables have moved on. In the end the raw table has every record of the topic once, at its offset, and the
other table has the last value of each key. FAULTS_KILLS says how often (8, two for each target), FAULTS_SEED which
times are drawn.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from ottla.testing import cluster
from ottla.testing.clusters import Cluster, node_environment
from tests.lake.lakes import Lake
from tests.support.iceberg_rest import RestCatalogProcess, rest_catalog
from tests.support.spark_java import SHORT_LIVED
from tests.support.spark_topics import Content, Topics

pytestmark = [pytest.mark.faults, pytest.mark.spark, pytest.mark.timeout(0)]

KILLS = int(os.environ.get("FAULTS_KILLS", "8"))
SEED = int(os.environ.get("FAULTS_SEED", "1"))
PATIENCE_SECONDS = 600.0
KEYS = 5_000


class Driver:
    """`ottla lake run`, which is started and killed."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._log = file.with_suffix(".log")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ottla.cli.main", "lake", "run", str(self._file), "--master", "local[1,4]"],
                stdout=log,
                stderr=log,
                process_group=0,
                env=node_environment(),
            )

    def kill(self) -> None:
        """All of it: the driver, its Java and the Python workers are one process group."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def kill_worker(self, dice: random.Random) -> None:
        """One of the processes in which tasks run."""
        assert self._process is not None
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end:
            below = psutil.Process(self._process.pid).children(recursive=True)
            workers = [each for each in below if is_worker(each)]
            if workers:
                with contextlib.suppress(psutil.NoSuchProcess):
                    dice.choice(workers).kill()
                    return
            time.sleep(0.05)
        raise AssertionError(f"no worker: {self.log()}")

    def log(self) -> str:
        return self._log.read_text()[-3000:]


def is_worker(process: psutil.Process) -> bool:
    try:
        return "pyspark.worker" in process.cmdline()
    except psutil.Error:
        # It has ended meanwhile.
        return False


class Source(threading.Thread):
    """Sends records until it is stopped, in small portions."""

    def __init__(self, bootstrap: str, raw: str, keyed: str) -> None:
        super().__init__()
        self._servers = bootstrap
        self._raw, self._keyed = raw, keyed
        self._stopping = threading.Event()
        self.sent = 0

    def run(self) -> None:
        topics = Topics(self._servers)
        dice = random.Random(SEED)
        try:
            while not self._stopping.is_set():
                numbers = range(self.sent, self.sent + 200)
                topics.send(self._raw, [b"%d" % number for number in numbers], partition=dice.randrange(3))
                changes: list[Content] = []
                for number in numbers:
                    gone = dice.random() < 0.1
                    changes.append((b"%d" % dice.randrange(KEYS), None if gone else b"%d" % number, []))
                topics.send(self._keyed, changes)
                self.sent += 200
                # The processes under test need the cores, too.
                self._stopping.wait(0.5)
        finally:
            topics.close()

    def stop(self) -> None:
        self._stopping.set()
        self.join()


@pytest.fixture
def brokers() -> Iterator[Cluster]:
    with cluster(nodes=3) as running:
        yield running


def position(lake: Lake, topic: str) -> dict[int, int]:
    from ottla.lake.iceberg import IcebergTable

    identifier = lake.settings.table(topic, {}).identifier
    try:
        found = IcebergTable(lake.catalog, identifier).position()
    except Exception:  # noqa: BLE001
        # There is no table yet, or the catalog is away.
        return {}
    return {} if found is None else dict(found.offsets)


def wait_for_progress(driver: Driver, lake: Lake, topics: list[str]) -> None:
    before = [position(lake, topic) for topic in topics]
    end = time.monotonic() + PATIENCE_SECONDS
    while any(position(lake, topic) in (old, {}) for topic, old in zip(topics, before, strict=True)):
        assert time.monotonic() < end, driver.log()
        time.sleep(0.1)


def test_tables_equal_their_topics_whatever_is_killed(brokers: Cluster, tmp_path: Path) -> None:
    dice = random.Random(SEED)
    topics = Topics(brokers.bootstrap)
    raw = topics.create(partitions=3)
    keyed = topics.create()
    with rest_catalog(tmp_path) as catalog:
        keys = {
            "topics": f"{raw},{keyed}",
            f"topic.{keyed}.mode": "upsert",
            "commit.interval.ms": "200",
            "compact.files": "5",
            "catalog.uri": catalog.url,
            **SHORT_LIVED,
        }
        file = tmp_path / "lake.properties"
        lines = {"bootstrap.servers": brokers.bootstrap, "warehouse": str(tmp_path), **keys}
        file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        lake = Lake(topics, tmp_path, catalog_uri=catalog.url)
        driver, source = Driver(file), Source(brokers.bootstrap, raw, keyed)
        source.start()
        driver.start()
        try:
            for number in range(KILLS):
                wait_for_progress(driver, lake, [raw, keyed])
                time.sleep(dice.random())
                target = ("driver", "worker", "catalog", "broker")[number % 4]
                print(f"{time.strftime('%X')} {source.sent} records of each topic sent; killing: {target}")
                kill(target, driver, catalog, brokers, dice)
            source.stop()
            ends = {name: ends_of(topics, name) for name in (raw, keyed)}
            end = time.monotonic() + PATIENCE_SECONDS
            while any(position(lake, name) != expected for name, expected in ends.items()):
                assert time.monotonic() < end, driver.log()
                time.sleep(0.5)
        finally:
            source.stop()
            driver.kill()
        compare(topics, lake, raw, keyed)
        lake.catalog.close()
    topics.close()


def kill(target: str, driver: Driver, catalog: RestCatalogProcess, brokers: Cluster, dice: random.Random) -> None:
    if target == "driver":
        driver.kill()
        driver.start()
    elif target == "worker":
        driver.kill_worker(dice)
    elif target == "catalog":
        if dice.random() < 0.5:
            catalog.break_after_next_commit()
            catalog.wait()
        else:
            catalog.kill()
        catalog.start()
    else:
        node = dice.choice(brokers.nodes)
        node.kill()
        node.start()


def ends_of(topics: Topics, name: str) -> dict[int, int]:
    return {record.partition: record.offset + 1 for record in topics.read(name)}


def compare(topics: Topics, lake: Lake, raw: str, keyed: str) -> None:
    expected = sorted((record.partition, record.offset, record.value) for record in topics.read(raw))
    landed = [(row[0], row[1], row[3]) for row in lake.rows(raw)]
    print(f"{len(expected)} records, {len(landed)} rows")
    assert landed == expected
    last: dict[bytes, bytes] = {}
    for record in topics.read(keyed):
        assert record.key is not None
        if record.value is None:
            last.pop(record.key, None)
        else:
            last[record.key] = record.value
    rows = lake.rows(keyed)
    assert {row[2]: row[3] for row in rows} == last
    assert len(rows) == len(last)
