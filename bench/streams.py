"""Streams: applications of `ottla.streams` beside the same topologies of Kafka Streams, on the same Ottla node.

Both applications run at the same time, each with one worker, exactly once and with the same commit interval; the one
that is not measured is frozen. Both read the same input, which is complete before the measurement begins. Kafka Streams
gets its best settings: a warm JVM, stores in memory, large batches and fetches; its cache is on, so it writes fewer
updates than Ottla, which writes every one.

| case | figures |
|---|---|
| every topology of `streams_run` | records per second until all input is committed; CPU time per million records |
| latency | from sending a record to its update, at a steady rate: with the same commit interval; at no more CPU time |
| start | from the start of the process to the first update, without state, and with a changelog to restore |
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import statistics
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
from confluent_kafka import Consumer
from confluent_kafka.cimpl import TopicPartition as Place

import ottla.testing
from bench.cases import Goal, Metrics
from bench.measure import Meter
from bench.metrics import Special
from bench.runner import OURS, PEER, CaseFailedError, Result, alternating, as_result
from bench.spark_copy import PULSE_RATE, Pulse
from bench.streams_run import topology_of
from bench.workers import WAIT_S, Contestant
from ottla.client.admin.topics import NewTopic
from ottla.client.blocking import BlockingAdmin, BlockingProducer
from ottla.client.producer import ProducerSettings
from ottla.client.settings import ClientSettings, parse_bootstrap
from tests.support import jars
from tests.support.java import compiled, java_command

__all__ = ["SPECIALS"]

GROUP = "streams"
PARTITIONS = 2
RECORDS = 300_000
WARM_UP_RUNS = 3
RESTORED_KEYS = int(os.environ.get("BENCH_RESTORED_KEYS", "1000000"))
KEYS = 10_000
LATENCY_S = 10.0
RATE, CPU = "records/s", "CPU s/million records"
GOALS = {RATE: Goal(ratio=3.0, at_most=False), CPU: Goal(ratio=0.33)}
LATENCY_GOALS = {"p50 ms": Goal(ratio=0.7), "p99 ms": Goal(ratio=0.7)}
CORES = "cores"
# One record in this many microseconds of stream time.
STEP_US = 100
FIRST_MS = 1_700_000_000_000
SETTINGS = {
    "processing.guarantee": "exactly_once_v2",
    "commit.interval.ms": "100",
    "num.stream.threads": "1",
    "auto.offset.reset": "earliest",
    "replication.factor": "1",
    "default.dsl.store": "in_memory",
}
JAVA_SETTINGS = {
    "statestore.cache.max.bytes": str(64 << 20),
    "producer.batch.size": str(256 << 10),
    "main.consumer.max.poll.records": "10000",
    "main.consumer.max.partition.fetch.bytes": str(4 << 20),
    "buffered.records.per.partition": "10000",
    # A closed application leaves its group, so that the next start does not wait for its session to end.
    "internal.leave.group.on.close": "true",
    # The application that is not measured is frozen.
    "session.timeout.ms": "300000",
    "producer.transaction.timeout.ms": "300000",
}
JVM_OPTIONS = ["-Xms512m", "-Xmx1g", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
TITLES = {
    "words": "word count: lines of 5 words, split, repartitioned and counted",
    "windows": "windowed aggregation: sums in tumbling windows",
    "lookup": "stream-table join",
    "pairs": "stream-stream join in a window",
    "sessions": "session windows: counts",
    "function": "a Python function for each record",
}
LATENCY = "latency of an update, 200 records/s, commits every 100 ms"
CHEAP_LATENCY = "latency of an update at no more CPU time, commits every 10 ms, those of Kafka Streams every 100 ms"
START = "start to first output"
RESTORE = f"start to first output with {RESTORED_KEYS:,} keys to restore to disk"
Rows = tuple[pa.Array, pa.Array]


class Inputs:
    """Creates topics and fills them with columns; every call of `fill` continues in stream time."""

    def __init__(self, bootstrap: str) -> None:
        self._settings = ClientSettings(bootstrap_servers=parse_bootstrap(bootstrap))
        self._admin = BlockingAdmin(self._settings)
        self._producer = BlockingProducer(self._settings, ProducerSettings(linger_ms=0, buffer_bytes=256 << 20))
        self._written = 0

    def close(self) -> None:
        self._producer.close()
        self._admin.close()

    def create(self, *names: str, policy: str = "delete") -> None:
        configs = {"retention.ms": "-1", "cleanup.policy": policy}
        new = [NewTopic(name=name, partitions=PARTITIONS, configs=configs) for name in names]
        self._admin.call(lambda admin: admin.topics.create(new))

    def fill(self, topology: str, records: int) -> int:
        """The number of records that were written."""
        numbers = np.arange(self._written, self._written + records)
        self._written += records
        times = pa.array(FIRST_MS * 1000 + numbers * STEP_US).cast(pa.timestamp("us", tz="UTC"))
        written = 0
        for topic, (key, value) in rows_of(topology, numbers).items():
            table = pa.table({"key": key, "value": value, "timestamp": times.slice(0, len(key))})
            self._producer.send_table(topic, table)
            written += len(key)
        self._producer.flush()
        return written

    def fill_keys(self, topic: str, keys: int) -> None:
        """A record for each key."""
        for first in range(0, keys, 1_000_000):
            numbers = np.arange(first, min(keys, first + 1_000_000))
            rows = pa.table({"key": _texts("state-", numbers), "value": _texts("row-", numbers)})
            self._producer.send_table(topic, rows)
            self._producer.flush()

    def delete(self, *names: str) -> None:
        self._admin.call(lambda admin: admin.topics.delete(list(names)))

    def lag(self, group: str, least: int) -> int:
        """The lag of the worst partition; at least `least` partitions must have committed offsets."""
        offsets = self._admin.call(lambda admin: admin.groups.offsets(group))
        if len(offsets) < least:
            return 1 << 30
        ends = self._admin.call(lambda admin: admin.offsets.numbers(list(offsets), -1))
        return max(ends[place] - entry.offset for place, entry in offsets.items())


def rows_of(topology: str, numbers: np.ndarray) -> dict[str, Rows]:
    """The columns of every input topic."""
    random = np.random.default_rng(int(numbers[0]) if len(numbers) else 0)
    keys = _texts("key-", random.integers(0, KEYS, len(numbers)))
    values = _texts("value-of-some-length-", numbers)
    if topology == "words":
        vocabulary = np.array([f"word{number}" for number in range(KEYS)])
        lines = vocabulary[random.integers(0, KEYS, (len(numbers) // 5, 5))]
        joined = [" ".join(line) for line in lines.tolist()]
        return {"lines": (keys.slice(0, len(joined)), pa.array(joined).cast(pa.binary()))}
    if topology == "windows":
        content = pa.py_buffer(numbers.astype(">i8").tobytes())
        return {"trades": (keys, pa.Array.from_buffers(pa.binary(8), len(numbers), [None, content]).cast(pa.binary()))}
    if topology == "lookup":
        users = np.arange(KEYS) if numbers[0] == 0 else np.arange(0)
        return {"users": (_texts("key-", users), _texts("user-", users)), "clicks": (keys, values)}
    if topology == "pairs":
        half = len(numbers) // 2
        return {
            "orders": (keys.slice(0, half), values.slice(0, half)),
            "payments": (keys.slice(0, half), values.slice(half, half)),
        }
    if topology == "sessions":
        return {"visits": (_texts("key-", random.integers(0, KEYS // 10, len(numbers))), values)}
    return {"events": (keys, values)}


def _texts(prefix: str, numbers: np.ndarray) -> pa.Array:
    return pa.array(np.char.add(prefix, numbers.astype(str)).tolist(), pa.string()).cast(pa.binary())


TOPICS = {
    "words": ["lines"],
    "windows": ["trades"],
    "lookup": ["users", "clicks"],
    "pairs": ["orders", "payments"],
    "sessions": ["visits"],
    "function": ["events"],
    "latest": ["events"],
}


def contestant(side: str, topology: str, bootstrap: str, package: Path, place: Path, **more: str) -> Contestant:
    """An application of either kind. `place` is the directory of its state."""
    settings = {"application.id": side, "bootstrap.servers": bootstrap, "state.dir": str(place / "state")}
    settings |= {**SETTINGS, **more}
    if side == OURS:
        command = [sys.executable, "-m", "bench.streams_run", topology, json.dumps(settings)]
        return Contestant(command, place, {"PYTHONPATH": f"{package.parent}{os.pathsep}{os.getcwd()}"})
    classes = compiled([Path(__file__).parent / "java" / "streams" / "BenchedStreams.java"], jar_set=jars.STREAMS)
    settings |= JAVA_SETTINGS
    command = [java_command(), *JVM_OPTIONS, "-cp", f"{classes}:{jars.class_path(jars.STREAMS)}", "BenchedStreams"]
    return Contestant([*command, topology, *(f"{key}={value}" for key, value in settings.items())], place)


def measure_throughput(topology: str, package: Path, directory: Path, runs: int) -> Result:
    measured: dict[str, list[Metrics]] = {PEER: [], OURS: []}
    # Committed offsets: of the input, and of the repartition topic.
    places = PARTITIONS * (len(TOPICS[topology]) + (topology == "words"))
    with ottla.testing.cluster() as cluster, ExitStack() as stack:
        inputs = Inputs(cluster.bootstrap)
        stack.callback(inputs.close)
        inputs.create("out", *TOPICS[topology])
        inputs.fill(topology, RECORDS // 10)
        applications = {}
        for side in measured:
            application = contestant(side, topology, cluster.bootstrap, package, directory / side)
            applications[side] = stack.enter_context(application)
            _wait_for_all(application, inputs, side, places)
        for number in range(WARM_UP_RUNS + runs):
            with applications[PEER].frozen(), applications[OURS].frozen():
                records = inputs.fill(topology, RECORDS)
            for side in alternating(list(measured), number):
                idle = applications[OURS if side == PEER else PEER]
                with idle.frozen():
                    metrics = _timed(applications[side], inputs, side, places, cluster.node(1).pid, records)
                if number >= WARM_UP_RUNS:
                    measured[side].append(metrics)
    shutil.rmtree(directory)
    return as_result(GROUP, TITLES[topology], GOALS, measured)


def _timed(application: Contestant, inputs: Inputs, side: str, places: int, node: int, records: int) -> Metrics:
    cpu, broker = application.cpu_seconds(), sum(psutil.Process(node).cpu_times()[:2])
    with Meter((node,), tuple(process.pid for process in application.processes())) as meter:
        _wait_for_all(application, inputs, side, places)
    millions = records / 1e6
    return {
        RATE: records / meter.wall_s,
        CPU: (application.cpu_seconds() - cpu) / millions,
        "broker CPU s/million records": (sum(psutil.Process(node).cpu_times()[:2]) - broker) / millions,
        "others": meter.others_share,
    }


def _wait_for_all(application: Contestant, inputs: Inputs, side: str, places: int) -> None:
    """Waits until everything is committed; the marker of the last transaction may remain."""
    application.wait_for(lambda: inputs.lag(side, places) <= 1, pause_s=0.02)


def measure_latency(package: Path, directory: Path, runs: int) -> Result:
    return as_result(GROUP, LATENCY, LATENCY_GOALS, _latencies({PEER: 100, OURS: 100}, package, directory, runs))


def measure_cheap_latency(package: Path, directory: Path, runs: int) -> Result:
    """A commit of Kafka Streams costs more CPU time than several of Ottla's, so they may be more frequent."""
    measured = _latencies({PEER: 100, OURS: 10}, package, directory, runs)
    return as_result(GROUP, CHEAP_LATENCY, {**LATENCY_GOALS, CORES: Goal(ratio=1.0)}, measured)


def _latencies(intervals_ms: dict[str, int], package: Path, directory: Path, runs: int) -> dict[str, list[Metrics]]:
    measured: dict[str, list[Metrics]] = {PEER: [], OURS: []}
    for side, figures in measured.items():
        with ottla.testing.cluster(settings={"num.partitions": "1"}) as cluster:
            interval = {"commit.interval.ms": str(intervals_ms[side])}
            application = contestant(side, "latest", cluster.bootstrap, package, directory / side, **interval)
            _create_single(cluster.bootstrap, "events", "out")
            with application, Pulse(cluster.bootstrap, "events", "out", keys=100) as pulse:
                application.wait_for(pulse.has_begun)
                pulse.settle()
                for _ in range(runs):
                    begun, cpu = time.monotonic(), application.cpu_seconds()
                    latencies_ms = sorted(pulse.latencies_ms(int(PULSE_RATE * LATENCY_S)))
                    if not latencies_ms:
                        raise CaseFailedError(application.complaints())
                    p99 = latencies_ms[int(len(latencies_ms) * 0.99)]
                    cores = (application.cpu_seconds() - cpu) / (time.monotonic() - begun)
                    figures.append({"p50 ms": statistics.median(latencies_ms), "p99 ms": p99, CORES: cores})
    shutil.rmtree(directory)
    return measured


def measure_start(package: Path, directory: Path, runs: int) -> Result:
    measured: dict[str, list[Metrics]] = {PEER: [], OURS: []}
    with ottla.testing.cluster() as cluster, ExitStack() as stack:
        inputs = Inputs(cluster.bootstrap)
        stack.callback(inputs.close)
        inputs.create("events", "out")
        inputs.fill("latest", 100)
        for number in range(runs):
            for side in alternating(list(measured), number):
                identity = {"application.id": f"{side}-{number}"}
                place = directory / f"{side}-{number}"
                application = contestant(side, "latest", cluster.bootstrap, package, place, **identity)
                measured[side].append({"seconds": _until_output(application, cluster.bootstrap)["seconds"]})
    shutil.rmtree(directory)
    return as_result(GROUP, START, {"seconds": Goal(ratio=1.0)}, measured)


def measure_restore(package: Path, directory: Path, runs: int) -> Result:
    """Stores are on disk, and the state is in the changelog alone, which no application has to write first."""
    measured: dict[str, list[Metrics]] = {PEER: [], OURS: []}
    (store,) = topology_of("latest").stores
    with ottla.testing.cluster() as cluster, ExitStack() as stack:
        inputs = Inputs(cluster.bootstrap)
        stack.callback(inputs.close)
        inputs.create("events", "out")
        for number in range(runs):
            for side in alternating(list(measured), number):
                name = f"{side}-{number}"
                changelog = f"{name}-{store}-changelog"
                inputs.create(changelog, policy="compact")
                inputs.fill_keys(changelog, RESTORED_KEYS)
                inputs.fill("latest", 10)
                settings = {"application.id": name, "default.dsl.store": "rocksDB"}
                application = contestant(side, "latest", cluster.bootstrap, package, directory / name, **settings)
                measured[side].append(_until_output(application, cluster.bootstrap, RESTORED_KEYS / 1e4))
                inputs.delete(changelog)
                shutil.rmtree(directory / name)
    shutil.rmtree(directory)
    return as_result(GROUP, RESTORE, {"seconds": Goal(ratio=1.0)}, measured)


def _until_output(application: Contestant, bootstrap: str, more_s: float = 0.0) -> Metrics:
    """The time from the start of a process to its first output. `more_s` is added to the usual limit."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "watch", "enable.auto.commit": False})
    ends = [consumer.get_watermark_offsets(Place("out", number), timeout=10)[1] for number in range(PARTITIONS)]
    consumer.assign([Place("out", number, end) for number, end in enumerate(ends)])
    begun = time.monotonic()
    with application:
        application.wait_for(lambda: consumer.poll(0.02) is not None, pause_s=0.0, limit_s=WAIT_S + more_s)
        seconds, cpu = time.monotonic() - begun, application.cpu_seconds()
        memory = application.memory_bytes()
    consumer.close()
    return {"seconds": seconds, "CPU s": cpu, "memory MB": memory / 1e6}


def _create_single(bootstrap: str, *names: str) -> None:
    admin = BlockingAdmin(ClientSettings(bootstrap_servers=parse_bootstrap(bootstrap)))
    admin.call(lambda client: client.topics.create([NewTopic(name=name, partitions=1) for name in names]))
    admin.close()


SPECIALS: tuple[Special, ...] = (
    *((f"{GROUP}: {title}", 25.0, functools.partial(measure_throughput, name)) for name, title in TITLES.items()),
    (f"{GROUP}: {LATENCY}", 30.0, measure_latency),
    (f"{GROUP}: {CHEAP_LATENCY}", 30.0, measure_cheap_latency),
    (f"{GROUP}: {START}", 15.0, measure_start),
    (f"{GROUP}: {RESTORE}", 20.0, measure_restore),
)
