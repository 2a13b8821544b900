"""Mirroring between two clusters: `ottla mirror` beside MirrorMaker 2, with the same properties file.

All clusters are single nodes of Ottla: one source, and a target for each contestant. Both contestants are warmed up.
MirrorMaker 2 delivers at least once, as it does by default; `ottla mirror` runs on Spark, as it does by default, and
writes each record once.

| case | what |
|---|---|
| copying | a million records that are there already: records/s, CPU of all processes of the contestant |
| latency | 1,000 records/s: from the send at the source to a consumer of committed records at the target |
| at rest | 500 topics of 10 partitions, 5 of them with a record a second: cores, memory, mean time to a new topic |

`BENCH_MIRRORED_TOPICS` is the number of topics of the last case.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import shutil
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic, TopicPartition

import ottla.testing
from bench.cases import Goal, Metrics
from bench.measure import cpu_seconds
from bench.metrics import Special
from bench.pipelines import asking, fill_topic, result
from bench.runner import OURS, PEER, CaseFailedError, Result, alternating
from bench.spark_copy import Pulse
from bench.workers import Contestant, mirror_maker, ottla_mirror

__all__ = ["SPECIALS", "mirror_properties"]

GROUP = "mirror"
TRANSLATED, EXACT = "translated", "exact"
COPYING = f"{GROUP}: a million records of 100 B, %s offsets, beside MirrorMaker 2"
LATENCY = f"{GROUP}: latency at 1,000 records/s, %s offsets, beside MirrorMaker 2"
TOPICS = int(os.environ.get("BENCH_MIRRORED_TOPICS", "500"))
AT_REST = f"{GROUP}: {TOPICS} topics with 10 partitions, mostly idle, beside MirrorMaker 2"

RECORDS = 1_000_000
WARM_UP_RECORDS = 100_000
WARM_UP_RUNS = 2
RECORD_BYTES = 100
PARTITIONS = 2
COPYING_GOALS = {"records/s": Goal(ratio=2.0, at_most=False), "CPU s/GB": Goal(ratio=0.5)}

RATE = 1_000
LATENCY_S = 10.0

REFRESH_S = 5
PARTITIONS_AT_REST = 10
BUSY_TOPICS = 5
REST_S = 10.0
# New topics in a run: each waits for the next look at the topics of the source, which is a matter of luck.
NEW_TOPICS = 2
START_S = 120.0
TOPICS_AT_ONCE = 50
AT_REST_GOALS = {"cores": Goal(ratio=1.0), "s to a new topic": Goal(ratio=1.0)}

Clusters = Mapping[str, ottla.testing.Cluster]


# Contestants.


def mirror_properties(source: str, target: str, topics: str, more: Mapping[str, str]) -> dict[str, str]:
    """The file of both contestants. MirrorMaker 2 ignores the keys of Ottla."""
    internal = ("heartbeats.topic", "checkpoints.topic", "offset-syncs.topic")
    of_connect = ("config.storage", "offset.storage", "status.storage")
    return {
        "clusters": "a, b",
        "a.bootstrap.servers": source,
        "b.bootstrap.servers": target,
        "a->b.enabled": "true",
        "a->b.topics": topics,
        "tasks.max": str(PARTITIONS),
        # Ten minutes by default, for MirrorMaker 2.
        "refresh.topics.interval.seconds": str(REFRESH_S),
        "replication.factor": "1",
        **{f"{name}.replication.factor": "1" for name in (*internal, *of_connect)},
        **more,
    }


def started(side: str, place: Path, properties: Mapping[str, str], package: Path) -> Contestant:
    return mirror_maker(place, properties) if side == PEER else ottla_mirror(place, properties, package)


@contextlib.contextmanager
def clusters() -> Iterator[Clusters]:
    """The source, and the target of each contestant."""
    with ExitStack() as stack:
        yield {name: stack.enter_context(ottla.testing.cluster()) for name in ("source", PEER, OURS)}


# Copying.


def measure_copying(offsets: str, package: Path, directory: Path, runs: int) -> Result:
    measured: dict[str, list[Metrics]] = {PEER: [], OURS: []}
    with clusters() as nodes, ExitStack() as stack:
        source = nodes["source"].bootstrap
        create_topics(source, dict.fromkeys(measured, PARTITIONS))
        contestants = {}
        for side in measured:
            properties = mirror_properties(source, nodes[side].bootstrap, side, {"ottla.offsets": offsets})
            contestants[side] = stack.enter_context(started(side, directory / side, properties, package))
        written = 0
        for number in range(WARM_UP_RUNS + runs):
            counts = number >= WARM_UP_RUNS
            records = RECORDS if counts else WARM_UP_RECORDS
            written += records
            for side in alternating(list(measured), number):
                contestant = contestants[side]
                # Frozen while its input is produced, so that the measurement begins with the whole input.
                with contestant.frozen():
                    fill_topic(source, side, records)
                is_translated = side == OURS and offsets == TRANSLATED
                copied = functools.partial(positions if is_translated else ends, nodes[side].bootstrap, f"a.{side}")
                pids = [nodes["source"].node(1).pid, nodes[side].node(1).pid]
                with metered(contestant, pids, records) as metrics:
                    contestant.wait_for(functools.partial(has_all, copied, written), pause_s=0.05, limit_s=START_S)
                if counts:
                    measured[side].append(metrics)
    shutil.rmtree(directory)
    return result(COPYING % offsets, COPYING_GOALS, measured)


@contextlib.contextmanager
def metered(contestant: Contestant, nodes: list[int], records: int) -> Iterator[Metrics]:
    """Adds the figures of copying this many records."""
    metrics: Metrics = {}
    size_gb = records * RECORD_BYTES / 1e9
    cpu, nodes_cpu, began = contestant.cpu_seconds(), sum(map(cpu_seconds, nodes)), time.monotonic()
    yield metrics
    metrics["records/s"] = records / (time.monotonic() - began)
    metrics["CPU s/GB"] = (contestant.cpu_seconds() - cpu) / size_gb
    metrics["broker CPU s/GB"] = (sum(map(cpu_seconds, nodes)) - nodes_cpu) / size_gb


def has_all(copied: Callable[[], int], records: int) -> bool:
    # The copy does not exist at first.
    with contextlib.suppress(KafkaException):
        return copied() >= records
    return False


def ends(bootstrap: str, topic: str) -> int:
    """Without markers in the copy, its end offsets are its number of records."""
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    return sum(asking(bootstrap, "asking").get_watermark_offsets(place, timeout=10)[1] for place in places)


def positions(bootstrap: str, topic: str) -> int:
    """The positions at the source, which `ottla mirror` commits with the records."""
    places = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    return sum(max(0, position.offset) for position in asking(bootstrap, "mirror-a-b").committed(places, timeout=10))


# Latency.


def measure_latency(offsets: str, package: Path, directory: Path, runs: int) -> Result:
    measured: dict[str, list[Metrics]] = {PEER: [], OURS: []}
    with clusters() as nodes:
        source = nodes["source"].bootstrap
        create_topics(source, dict.fromkeys(measured, 1))
        for side, figures in measured.items():
            properties = mirror_properties(source, nodes[side].bootstrap, side, {"ottla.offsets": offsets})
            arriving = Pulse(source, side, f"a.{side}", rate=RATE, arrives_at=nodes[side].bootstrap)
            with started(side, directory / side, properties, package) as contestant, arriving as pulse:
                # The first records wait for the start of the mirror, which is not part of the measurement.
                contestant.wait_for(pulse.has_begun, limit_s=START_S)
                pulse.settle()
                for _ in range(runs):
                    cpu, began = contestant.cpu_seconds(), time.monotonic()
                    latencies_ms = sorted(pulse.latencies_ms(int(RATE * LATENCY_S)))
                    if not latencies_ms:
                        raise CaseFailedError(contestant.complaints())
                    cores = (contestant.cpu_seconds() - cpu) / (time.monotonic() - began)
                    p99 = latencies_ms[int(len(latencies_ms) * 0.99)]
                    figures.append({"p50 ms": statistics.median(latencies_ms), "p99 ms": p99, "cores": cores})
    shutil.rmtree(directory)
    return result(LATENCY % offsets, {}, measured)


# Many topics at rest.


def measure_at_rest(package: Path, directory: Path, runs: int) -> Result:
    measured: dict[str, list[Metrics]] = {PEER: [], OURS: []}
    names = [f"topic-{number}" for number in range(TOPICS)]
    with ottla.testing.cluster() as source:
        create_topics(source.bootstrap, dict.fromkeys(names, PARTITIONS_AT_REST))
        for side in measured:
            with ottla.testing.cluster() as target, trickle(source.bootstrap, names[:BUSY_TOPICS]):
                properties = mirror_properties(source.bootstrap, target.bootstrap, ".*", {})
                with started(side, directory / side, properties, package) as contestant:
                    has_begun = functools.partial(has_copies, target.bootstrap, names)
                    contestant.wait_for(has_begun, pause_s=1.0, limit_s=START_S)
                    # The first new topic shows that the workers are running.
                    seconds_to_copy(contestant, source, target, f"new-{side}")
                    for number in range(runs):
                        figures = figures_at_rest(contestant, [source.node(1).pid, target.node(1).pid])
                        seconds = [
                            seconds_to_copy(contestant, source, target, f"new-{side}-{number}-{topic}")
                            for topic in range(NEW_TOPICS)
                        ]
                        measured[side].append({**figures, "s to a new topic": statistics.mean(seconds)})
    shutil.rmtree(directory)
    return result(AT_REST, AT_REST_GOALS, measured)


def figures_at_rest(contestant: Contestant, nodes: list[int]) -> Metrics:
    cpu, nodes_cpu, began = contestant.cpu_seconds(), sum(map(cpu_seconds, nodes)), time.monotonic()
    time.sleep(REST_S)
    seconds = time.monotonic() - began
    return {
        "cores": (contestant.cpu_seconds() - cpu) / seconds,
        "broker cores": (sum(map(cpu_seconds, nodes)) - nodes_cpu) / seconds,
        "memory GB": contestant.memory_bytes() / 1e9,
    }


def seconds_to_copy(
    contestant: Contestant, source: ottla.testing.Cluster, target: ottla.testing.Cluster, name: str
) -> float:
    """The seconds from the acknowledged first record of a new topic until it can be read in the copy."""
    # Not in step with the intervals of the contestants.
    time.sleep(random.uniform(0.0, REFRESH_S))
    create_topics(source.bootstrap, {name: PARTITIONS})
    fill_topic(source.bootstrap, name, PARTITIONS)
    began = time.monotonic()
    copied = functools.partial(ends, target.bootstrap, f"a.{name}")

    def is_copied() -> bool:
        # The topic must exist first: librdkafka keeps reporting a topic as unknown if it was asked for too early.
        return has_copies(target.bootstrap, [name]) and has_all(copied, PARTITIONS)

    contestant.wait_for(is_copied, pause_s=0.1, limit_s=START_S)
    return time.monotonic() - began


def has_copies(bootstrap: str, names: list[str]) -> bool:
    present = administrator(bootstrap).list_topics(timeout=30).topics
    return all(f"a.{name}" in present for name in names)


@functools.cache
def administrator(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


@contextlib.contextmanager
def trickle(bootstrap: str, topics: list[str]) -> Iterator[None]:
    """A record a second in each of these topics."""
    ended = threading.Event()

    def send() -> None:
        producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
        while not ended.wait(1.0):
            for topic in topics:
                producer.produce(topic, b"x" * RECORD_BYTES)
            producer.poll(0)
        producer.flush(10)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


# Helpers.


def create_topics(bootstrap: str, partitions: Mapping[str, int]) -> None:
    admin = administrator(bootstrap)
    names = list(partitions)
    for first in range(0, len(names), TOPICS_AT_ONCE):
        new = [NewTopic(name, partitions[name], 1) for name in names[first : first + TOPICS_AT_ONCE]]
        for created in admin.create_topics(new).values():
            created.result(60)


SPECIALS: tuple[Special, ...] = (
    *((COPYING % offsets, 30.0, functools.partial(measure_copying, offsets)) for offsets in (TRANSLATED, EXACT)),
    *((LATENCY % offsets, 35.0, functools.partial(measure_latency, offsets)) for offsets in (TRANSLATED, EXACT)),
    (AT_REST, 80.0, measure_at_rest),
)
