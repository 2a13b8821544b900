"""Pipelines: Connect and Spark on Ottla, beside Kafka Connect and MirrorMaker 2 on the same node of ours.

Both contestants run in separate processes at the same time; the one that is not measured is idle. Both are warmed up
with some records first, so that start-up is not measured. The figures are the time from the availability of the input
to the last record of the output, and the CPU time of all processes of the contestant. Kafka Connect delivers at least
once, as it is by default; ours writes each record once.

| case | ours | beside |
|---|---|---|
| files | `ottla connect standalone` with a file source and a file sink | Kafka Connect with its own two |
| topics | a streaming query from topic to topic | MirrorMaker 2's source connector |
| latency | the same query, a trigger of 100 ms | Spark's own connector: micro-batches, and real-time mode |
| idle | 20 connectors in one worker, then 40 | the budget |
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import psutil
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic, TopicPartition

import ottla.testing
from bench.cases import Goal, Metrics
from bench.metrics import Special
from bench.runner import OURS, PEER, CaseFailedError, Result, alternating, as_result
from bench.spark_copy import PULSE_RATE, Pulse
from bench.workers import Contestant, kafka_connect, ottla_connect, query
from ottla.spark import class_archive

__all__ = [
    "FILES",
    "IDLE",
    "LATENCY",
    "SPECIALS",
    "TOPICS",
    "asking",
    "create_topics",
    "fill_topic",
    "metered",
    "result",
]

GROUP = "pipelines"
FILES = f"{GROUP}: file to topic to file, a million lines of 100 B, beside Kafka Connect"
TOPICS = f"{GROUP}: topic to topic, a million records of 100 B, beside MirrorMaker 2"
LATENCY = f"{GROUP}: from topic to topic in micro-batches, beside Spark's own connector"
REAL_TIME = f"{GROUP}: from topic to topic in real-time mode, beside our micro-batches"
IDLE = f"{GROUP}: 20 idle connectors in one worker, beside what they may cost"

RECORDS = 1_000_000
WARM_UP_RECORDS = 100_000
WARM_UP_RUNS = 2
LINE_BYTES = 100
PARTITIONS = 2
THROUGHPUT = {"records/s": Goal(ratio=1.0, at_most=False)}

LATENCY_S = 10.0
# Java compiles what has run some hundred times: the latency of both contestants falls for most of a minute.
WARM_UP_S = 60.0
IDLE_CONNECTORS = 20
IDLE_S = 15.0
IDLE_BUDGET = {"memory GB": 3.0, "cores": 0.5}
# Each connector may use a twentieth: MB and thousandths of a core.
IDLE_SHARE = (150.0, 25.0)

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


# Cases.


def measure_files(package: Path, directory: Path, runs: int) -> Result:
    directory.mkdir(parents=True)
    block, warm_up = _lines(RECORDS), _lines(WARM_UP_RECORDS)
    measured: dict[str, list[Metrics]] = {PEER: [], OURS: []}
    with ottla.testing.cluster() as cluster, ExitStack() as stack:
        create_topics(cluster.bootstrap, dict.fromkeys(measured, 1))
        contestants = {}
        for side in measured:
            place = directory / side
            connectors = file_connectors(place, side)
            contestants[side] = stack.enter_context(
                kafka_connect(cluster.bootstrap, place, connectors)
                if side == PEER
                else ottla_connect(cluster.bootstrap, place, connectors, package)
            )
        node = cluster.node(1).pid
        for number in range(WARM_UP_RUNS + runs):
            for side in alternating(list(measured), number):
                counts = number >= WARM_UP_RUNS
                metrics = _file_run(contestants[side], directory / side, block if counts else warm_up, node)
                if counts:
                    measured[side].append(metrics)
    shutil.rmtree(directory)
    return result(FILES, THROUGHPUT, measured)


def file_connectors(place: Path, topic: str) -> list[dict[str, str]]:
    place.mkdir(parents=True, exist_ok=True)
    (place / "in.txt").touch()
    return [
        {"name": "in", "connector.class": "FileStreamSource", "file": str(place / "in.txt"), "topic": topic},
        {"name": "out", "connector.class": "FileStreamSink", "file": str(place / "out.txt"), "topics": topic},
    ]


def _file_run(contestant: Contestant, place: Path, block: bytes, node: int) -> Metrics:
    out = place / "out.txt"
    wanted_bytes = (place / "in.txt").stat().st_size + len(block)
    with metered(contestant, node, len(block) // LINE_BYTES) as metrics:
        with (place / "in.txt").open("ab") as file:
            file.write(block)
        contestant.wait_for(lambda: out.exists() and out.stat().st_size >= wanted_bytes)
    return metrics


def measure_topics(package: Path, directory: Path, runs: int) -> Result:
    inputs, targets = {PEER: "input", OURS: "origin"}, {PEER: "here.input", OURS: "copied"}
    measured: dict[str, list[Metrics]] = {PEER: [], OURS: []}
    with ottla.testing.cluster() as cluster, ExitStack() as stack:
        create_topics(cluster.bootstrap, dict.fromkeys([*inputs.values(), *targets.values()], PARTITIONS))
        contestants = {
            PEER: stack.enter_context(
                kafka_connect(cluster.bootstrap, directory / PEER, [mirror_connector(cluster.bootstrap, inputs[PEER])])
            ),
            OURS: stack.enter_context(
                query(package, directory / OURS, cluster.bootstrap, source=inputs[OURS], target=targets[OURS])
            ),
        }
        done = {
            # MirrorMaker 2 writes no markers, so the end offset of the copy is its number of records.
            PEER: lambda records: sum(_ends(cluster.bootstrap, targets[PEER])) >= records,
            OURS: lambda records: sum(_committed(cluster.bootstrap, "bench", inputs[OURS])) >= records,
        }
        written = 0
        for number in range(WARM_UP_RUNS + runs):
            counts = number >= WARM_UP_RUNS
            records = RECORDS if counts else WARM_UP_RECORDS
            written += records
            for side in alternating(list(measured), number):
                contestant = contestants[side]
                # Frozen while its input is produced, so that the measurement begins with the whole input.
                with contestant.frozen():
                    fill_topic(cluster.bootstrap, inputs[side], records)
                with metered(contestant, cluster.node(1).pid, records) as metrics:
                    contestant.wait_for(functools.partial(done[side], written), pause_s=0.05)
                if counts:
                    measured[side].append(metrics)
    shutil.rmtree(directory)
    return result(TOPICS, THROUGHPUT, measured)


def mirror_connector(bootstrap: str, topic: str) -> dict[str, str]:
    """MirrorMaker 2 on one cluster: the copy is named after its source cluster."""
    return {
        "name": "mirror",
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": "here",
        "target.cluster.alias": "there",
        "source.cluster.bootstrap.servers": bootstrap,
        "target.cluster.bootstrap.servers": bootstrap,
        "topics": topic,
        "tasks.max": str(PARTITIONS),
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        # Ottla has no ACLs yet.
        "sync.topic.acls.enabled": "false",
        "key.converter": BYTES,
        "value.converter": BYTES,
    }


def measure_latency(package: Path, directory: Path, runs: int) -> Result:
    """Micro-batches of Ottla's source compared with those of Spark's own connector."""
    measured = _latencies(package, directory, runs, {PEER: ("kafka", "micro"), OURS: ("ottla", "micro")})
    return result(LATENCY, {}, measured)


def measure_real_time(package: Path, directory: Path, runs: int) -> Result:
    measured = _latencies(package, directory, runs, {PEER: ("ottla", "micro"), OURS: ("kafka", "real-time")})
    return result(REAL_TIME, {}, measured)


def _latencies(
    package: Path, directory: Path, runs: int, modes: Mapping[str, tuple[str, str]]
) -> dict[str, list[Metrics]]:
    measured: dict[str, list[Metrics]] = {side: [] for side in modes}
    # Otherwise the first session of an environment makes it in the background, beside the measurement.
    class_archive.main()
    with ottla.testing.cluster() as cluster:
        create_topics(cluster.bootstrap, {f"{kind}-{side}": 1 for side in modes for kind in ("in", "out")})
        for side, (kind, mode) in modes.items():
            source, target = f"in-{side}", f"out-{side}"
            place = directory / side
            started = query(package, place, cluster.bootstrap, source=source, target=target, kind=kind, mode=mode)
            with started as contestant, Pulse(cluster.bootstrap, source, target) as pulse:
                # The first records wait for the start of the query, which is not part of the measurement.
                contestant.wait_for(pulse.has_begun)
                pulse.settle(WARM_UP_S)
                for _ in range(runs):
                    latencies_ms = sorted(pulse.latencies_ms(int(PULSE_RATE * LATENCY_S)))
                    if not latencies_ms:
                        raise CaseFailedError(contestant.complaints())
                    p99 = latencies_ms[int(len(latencies_ms) * 0.99)]
                    measured[side].append({"p50 ms": statistics.median(latencies_ms), "p99 ms": p99})
    shutil.rmtree(directory)
    return measured


def measure_idle(package: Path, directory: Path, runs: int) -> Result:
    """20 idle connectors, half of them sources; then 40, to measure the cost of each further connector."""
    measured: dict[str, list[Metrics]] = {PEER: [], OURS: []}
    with ottla.testing.cluster() as cluster:
        runs_by_count = []
        for count in (IDLE_CONNECTORS, 2 * IDLE_CONNECTORS):
            place = directory / str(count)
            connectors = [connector for number in range(count // 2) for connector in idle_pair(place, number)]
            with ottla_connect(cluster.bootstrap, place, connectors, package) as worker:
                outputs = [place / connector["file"] for connector in connectors if connector["name"].startswith("out")]
                worker.wait_for(functools.partial(_have_lines, outputs), pause_s=0.2)
                runs_by_count.append([_idle_run(worker) for _ in range(runs)])
        few, many = runs_by_count
        for first, second in zip(few, many, strict=True):
            each_mb = (second["memory GB"] - first["memory GB"]) * 1000 / IDLE_CONNECTORS
            each_millicores = (second["cores"] - first["cores"]) * 1000 / IDLE_CONNECTORS
            further = {"MB for each further one": each_mb, "millicores for each further one": each_millicores}
            measured[OURS].append({**first, **further})
            measured[PEER].append({**IDLE_BUDGET, **dict(zip(further, IDLE_SHARE, strict=True))})
    shutil.rmtree(directory)
    return result(IDLE, dict.fromkeys(IDLE_BUDGET, Goal(ratio=1.0)), measured)


def idle_pair(place: Path, number: int) -> list[dict[str, str]]:
    """A source and a sink that have moved one line, so that both are running."""
    place.mkdir(parents=True, exist_ok=True)
    source, sink = place / f"in-{number}.txt", place / f"out-{number}.txt"
    source.write_text("a line\n")
    topic = f"{place.name}-{number}"
    return [
        {"name": f"in-{number}", "connector.class": "FileStreamSource", "file": str(source), "topic": topic},
        {"name": f"out-{number}", "connector.class": "FileStreamSink", "file": str(sink), "topics": topic},
    ]


def _idle_run(worker: Contestant) -> Metrics:
    before, began = worker.cpu_seconds(), time.monotonic()
    time.sleep(IDLE_S)
    cores = (worker.cpu_seconds() - before) / (time.monotonic() - began)
    return {"memory GB": worker.memory_bytes() / 1e9, "cores": cores}


# Helpers.


@contextlib.contextmanager
def metered(contestant: Contestant, node: int, records: int) -> Iterator[Metrics]:
    """Adds the figures of moving this many records."""
    metrics: Metrics = {}
    size_gb = records * LINE_BYTES / 1e9
    cpu, node_cpu, began = contestant.cpu_seconds(), sum(psutil.Process(node).cpu_times()[:2]), time.monotonic()
    yield metrics
    metrics["records/s"] = records / (time.monotonic() - began)
    metrics["CPU s/GB"] = (contestant.cpu_seconds() - cpu) / size_gb
    metrics["broker CPU s/GB"] = (sum(psutil.Process(node).cpu_times()[:2]) - node_cpu) / size_gb


def _lines(count: int) -> bytes:
    """Lines of 100 bytes with their newline, no two the same."""
    width = LINE_BYTES - 1
    return b"".join(b"%0*d\n" % (width, number * 7919) for number in range(count))


def _have_lines(paths: Sequence[Path]) -> bool:
    return all(path.exists() and path.stat().st_size > 0 for path in paths)


def create_topics(bootstrap: str, partitions: Mapping[str, int]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for created in admin.create_topics([NewTopic(name, count, 1) for name, count in partitions.items()]).values():
        created.result(30)


def fill_topic(bootstrap: str, topic: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.num.messages": 1000})
    value = os.urandom(LINE_BYTES)
    for number in range(records):
        while True:
            try:
                producer.produce(topic, value, partition=number % PARTITIONS)
            except BufferError:
                producer.poll(0.05)
            else:
                break
    assert producer.flush(60) == 0


def _ends(bootstrap: str, topic: str) -> list[int]:
    consumer = asking(bootstrap, "asking")
    return [
        consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=10)[1] for number in range(PARTITIONS)
    ]


def _committed(bootstrap: str, group: str, topic: str) -> list[int]:
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    return [max(position.offset, 0) for position in asking(bootstrap, group).committed(places, timeout=10)]


@functools.cache
def asking(bootstrap: str, group: str) -> Consumer:
    return Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})


def result(title: str, goals: Mapping[str, Goal], measured: dict[str, list[Metrics]]) -> Result:
    group, _, name = title.partition(": ")
    return as_result(group, name, goals, measured)


SPECIALS: tuple[Special, ...] = (
    (FILES, 30.0, measure_files),
    (TOPICS, 30.0, measure_topics),
    (LATENCY, 150.0, measure_latency),
    (REAL_TIME, 150.0, measure_real_time),
    (IDLE, 45.0, measure_idle),
)
