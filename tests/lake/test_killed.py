"""Exactly once: driver, executors, Python workers, brokers, registry and catalog are killed at random.

A topic becomes a raw table, a compacted one a table with a row for each key, and one with schemas a typed table with
dead letters, while records arrive. Every kill waits until the tables have moved on. In the end the raw table has every
record of the topic once, at its offset, the typed table and its dead letters have each record once, and the other table
has the last value of each key. Spark runs on executors of their own. FAULTS_SECONDS is the duration (60; every target
is killed at least once), FAULTS_SEED the seed of the random times.
"""

from __future__ import annotations

import contextlib
import json
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

from ottla.lake.iceberg import IcebergTable
from ottla.serdes.wire_format import tagged_value
from ottla.testing import cluster
from ottla.testing.clusters import Cluster, node_environment
from tests.lake.lakes import Lake
from tests.support.iceberg_rest import RestCatalogProcess, rest_catalog
from tests.support.registries import RegistryProcess
from tests.support.spark_java import SHORT_LIVED
from tests.support.spark_topics import Content, Topics

pytestmark = [pytest.mark.faults, pytest.mark.spark, pytest.mark.timeout(0)]

SECONDS = float(os.environ.get("FAULTS_SECONDS", "60"))
SEED = int(os.environ.get("FAULTS_SEED", "1"))
PATIENCE_SECONDS = 600.0
KEYS = 5_000
MASTER = "local-cluster[2,1,1024]"
TARGETS = {
    "iceberg": ("driver", "executor", "catalog", "broker", "worker", "registry"),
    "delta": ("driver", "executor", "broker", "worker", "registry"),
}
SCHEMAS = (
    {"type": "object", "properties": {"number": {"type": "integer"}}},
    {"type": "object", "properties": {"number": {"type": "integer"}, "text": {"type": "string"}}},
)
DEAD = b"not json"


class Driver:
    """`ottla lake run`, which is started and killed."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._log = file.with_suffix(".log")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ottla.cli.main", "lake", "run", str(self._file), "--master", MASTER],
                stdout=log,
                stderr=log,
                process_group=0,
                env=node_environment(),
            )

    def kill(self) -> None:
        """Kills the whole process group: the driver, its JVM, the executors and the Python workers."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def kill_below(self, word: str, dice: random.Random) -> None:
        """Kills one of the processes below the driver whose command has this word."""
        assert self._process is not None
        end = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < end:
            below = psutil.Process(self._process.pid).children(recursive=True)
            candidates = [process for process in below if has_word(process, word)]
            if candidates:
                with contextlib.suppress(psutil.NoSuchProcess):
                    dice.choice(candidates).kill()
                    return
            time.sleep(0.05)
        raise AssertionError(f"no {word}: {self.log()}")

    def log(self) -> str:
        return self._log.read_text()[-3000:]


def has_word(process: psutil.Process, word: str) -> bool:
    try:
        return any(word in part for part in process.cmdline())
    except psutil.Error:
        # The process has ended meanwhile.
        return False


class Names:
    """The topics, each with a table."""

    def __init__(self, topics: Topics) -> None:
        self.raw = topics.create(partitions=3)
        self.keyed = topics.create()
        self.typed = topics.create(partitions=2)
        self.all = [self.raw, self.keyed, self.typed]


class Source(threading.Thread):
    """Sends records until it is stopped, in small portions."""

    def __init__(self, bootstrap: str, names: Names, schema_ids: list[int]) -> None:
        super().__init__()
        self._servers = bootstrap
        self._names = names
        self._schema_ids = schema_ids
        self._stopping = threading.Event()
        self.sent = 0

    def run(self) -> None:
        topics = Topics(self._servers)
        dice = random.Random(SEED)
        try:
            while not self._stopping.is_set():
                numbers = range(self.sent, self.sent + 200)
                topics.send(self._names.raw, [b"%d" % number for number in numbers], partition=dice.randrange(3))
                changes: list[Content] = []
                for number in numbers:
                    is_tombstone = dice.random() < 0.1
                    changes.append((b"%d" % dice.randrange(KEYS), None if is_tombstone else b"%d" % number, []))
                topics.send(self._names.keyed, changes)
                values = [DEAD if dice.random() < 0.02 else self._value(number, dice) for number in numbers]
                topics.send(self._names.typed, values, partition=dice.randrange(2))
                self.sent += 200
                # The processes under test need the cores, too.
                self._stopping.wait(0.5)
        finally:
            topics.close()

    def _value(self, number: int, dice: random.Random) -> bytes:
        # Both schemas are in use at the same time.
        version = dice.randrange(2)
        value = {"number": number, "text": "t"} if version else {"number": number}
        return tagged_value(self._schema_ids[version], json.dumps(value).encode())

    def stop(self) -> None:
        self._stopping.set()
        self.join()


class Registry:
    """A registry that is killed and started again at its port."""

    def __init__(self, bootstrap: str) -> None:
        self._process = RegistryProcess(bootstrap)
        self._bootstrap = bootstrap
        self.url = self._process.url

    def schema_ids(self, topic: str) -> list[int]:
        status, body = self._process.ask("PUT", f"/config/{topic}-value", {"compatibility": "NONE"})
        assert status == 200, body
        return [self._process.register(f"{topic}-value", json.dumps(schema), schemaType="JSON") for schema in SCHEMAS]

    def restart(self) -> None:
        port = str(self._process.port)
        self._process.kill()
        self._process = RegistryProcess(self._bootstrap, "--port", port)

    def kill(self) -> None:
        self._process.kill()


@pytest.fixture
def brokers() -> Iterator[Cluster]:
    with cluster(nodes=3) as running:
        yield running


@pytest.fixture
def registry(brokers: Cluster) -> Iterator[Registry]:
    running = Registry(brokers.bootstrap)
    yield running
    running.kill()


def position(lake: Lake, topic: str) -> dict[int, int]:
    settings = lake.settings.table(topic, {})
    try:
        if settings.format == "delta":
            last_position = lake.delta(topic).position()
        else:
            last_position = IcebergTable(lake.catalog, settings.identifier).position()
    except Exception:  # noqa: BLE001
        # There is no table yet, or the catalog is away.
        return {}
    return {} if last_position is None else dict(last_position.offsets)


def wait_for_progress(driver: Driver, lake: Lake, topics: list[str]) -> None:
    before = [position(lake, topic) for topic in topics]
    end = time.monotonic() + PATIENCE_SECONDS
    while any(position(lake, topic) in (old, {}) for topic, old in zip(topics, before, strict=True)):
        assert time.monotonic() < end, driver.log()
        time.sleep(0.1)


@pytest.mark.parametrize("table_format", ["iceberg", "delta"])
def test_tables_equal_their_topics_whatever_is_killed(
    brokers: Cluster, registry: Registry, tmp_path: Path, table_format: str
) -> None:
    dice = random.Random(SEED)
    topics = Topics(brokers.bootstrap)
    names = Names(topics)
    with rest_catalog(tmp_path) as catalog:
        keys = {
            "warehouse": str(tmp_path),
            "topics": ",".join(names.all),
            "format": table_format,
            f"topic.{names.keyed}.mode": "upsert",
            f"topic.{names.typed}.mode": "typed",
            "schema.registry.url": registry.url,
            "commit.interval.ms": "200",
            "compact.files": "5",
            "catalog.uri": catalog.url,
        }
        file = tmp_path / "lake.properties"
        lines = {"bootstrap.servers": brokers.bootstrap, **keys, **SHORT_LIVED}
        file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        lake = Lake(topics, tmp_path, **keys)
        driver, source = Driver(file), Source(brokers.bootstrap, names, registry.schema_ids(names.typed))
        source.start()
        driver.start()
        targets = TARGETS[table_format]
        try:
            number, end = 0, time.monotonic() + SECONDS
            while number < len(targets) or time.monotonic() < end:
                wait_for_progress(driver, lake, names.all)
                time.sleep(dice.random())
                target = targets[number % len(targets)]
                print(f"{time.strftime('%X')} {source.sent} records of each topic sent; killing: {target}")
                kill(target, driver, catalog, registry, brokers, dice)
                number += 1
            source.stop()
            ends = {name: ends_of(topics, name) for name in names.all}
            patience = time.monotonic() + PATIENCE_SECONDS
            while any(position(lake, name) != expected for name, expected in ends.items()):
                assert time.monotonic() < patience, driver.log()
                time.sleep(0.5)
        finally:
            source.stop()
            driver.kill()
        compare(topics, lake, names)
        lake.catalog.close()
    topics.close()


def kill(
    target: str, driver: Driver, catalog: RestCatalogProcess, registry: Registry, brokers: Cluster, dice: random.Random
) -> None:
    if target == "driver":
        driver.kill()
        driver.start()
    elif target == "executor":
        driver.kill_below("CoarseGrainedExecutorBackend", dice)
    elif target == "worker":
        driver.kill_below("pyspark.worker", dice)
    elif target == "registry":
        registry.restart()
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


def compare(topics: Topics, lake: Lake, names: Names) -> None:
    expected = sorted((record.partition, record.offset, record.value) for record in topics.read(names.raw))
    landed = [(row[0], row[1], row[3]) for row in lake.rows(names.raw)]
    print(f"{len(expected)} records, {len(landed)} rows")
    assert landed == expected
    last: dict[bytes, bytes] = {}
    for record in topics.read(names.keyed):
        assert record.key is not None
        if record.value is None:
            last.pop(record.key, None)
        else:
            last[record.key] = record.value
    rows = lake.rows(names.keyed)
    assert {row[2]: row[3] for row in rows} == last
    assert len(rows) == len(last)
    compare_typed(topics, lake, names.typed)


def compare_typed(topics: Topics, lake: Lake, name: str) -> None:
    expected = []
    dead = []
    for record in topics.read(name):
        assert record.value is not None
        if record.value == DEAD:
            dead.append((record.partition, record.offset, DEAD))
        else:
            value = json.loads(record.value[5:])
            expected.append((record.partition, record.offset, value["number"], value.get("text")))
    rows = lake.all_rows(name)
    assert sorted((row["_partition"], row["_offset"], row["number"], row["text"]) for row in rows) == expected
    letters = lake.all_rows(name, "_dead_letters")
    assert sorted((row["partition"], row["offset"], row["value"]) for row in letters) == dead
