"""Topic to topic on Spark while drivers, workers, executors and brokers are killed: everything arrives exactly once.

Short and without chance: tests/spark/test_exactly_once.py.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path

import pytest

from ottla.testing import Cluster, cluster
from tests.support.spark_crashes import arm
from tests.support.spark_pipeline import Pipeline
from tests.support.spark_topics import Topics

pytestmark = [pytest.mark.faults, pytest.mark.spark, pytest.mark.timeout(0)]

# How long a pipeline may take to catch up when nobody is killed any more.
PATIENCE_SECONDS = 600.0
# How long a driver may take until it has noted its first batches.
START_SECONDS = 240.0
COPIES = {"copy": 1, "distinct": 3, "counts": 1}


def kill_somebody(pipeline: Pipeline, running: Cluster, chance: random.Random) -> str:
    victim = chance.choice(["driver", "worker", "worker", "broker"])
    if victim == "driver" or not pipeline.running:
        if pipeline.running:
            pipeline.kill_driver()
        pipeline.start()
        return "driver"
    if victim == "worker":
        return "worker" if pipeline.kill_worker(chance) else "nobody"
    node = running.node(chance.randrange(1, 4))
    node.kill()
    time.sleep(chance.uniform(0, 3))
    node.start()
    return "broker"


@pytest.mark.parametrize(
    ("kind", "master"),
    [
        ("copy", "local[2,4]"),
        ("copy", "local-cluster[2,1,1024]"),
        ("distinct", "local[2,4]"),
        ("counts", "local[2,4]"),
    ],
)
def test_everything_arrives_once(
    faults_seconds: float, faults_seed: int, tmp_path: Path, kind: str, master: str
) -> None:
    chance = random.Random(faults_seed)
    with cluster(nodes=3) as running:
        topics = Topics(running.bootstrap)
        source, target = topics.create(partitions=3), topics.create(partitions=3)
        settings = {"bootstrap": running.bootstrap, "source": source, "target": target, "kind": kind, "master": master}
        sent = 0
        killed: Counter[str] = Counter()
        with Pipeline(tmp_path, **settings) as pipeline:
            pipeline.start()
            end = time.monotonic() + faults_seconds
            while time.monotonic() < end:
                # A driver that never gets to work is no test: it is left alone until it has noted two batches.
                quiet, wanted = time.monotonic() + START_SECONDS, pipeline.batches() + 2
                while pipeline.running and pipeline.batches() < wanted and time.monotonic() < quiet:
                    sent = send_more(topics, source, sent, kind)
                for _ in range(chance.randrange(1, 4)):
                    victim = kill_somebody(pipeline, running, chance)
                    killed[victim] += 1
                    if victim == "driver":
                        # The next one has nobody yet whom one could kill.
                        break
                    time.sleep(chance.uniform(0, 2))
            if not pipeline.running:
                pipeline.start()
            wait_until_done(pipeline, topics, kind, target, sent)
        print(f"{kind} on {master}: {sent} sent, {pipeline.starts} drivers, killed {dict(killed)}")
        assert killed, "nobody was killed"
        topics.close()


def send_more(topics: Topics, source: str, sent: int, kind: str) -> int:
    values = [str(number).encode() for number in range(sent, sent + 100)] * COPIES[kind]
    topics.send(source, values, partition=sent // 100 % 3)
    time.sleep(0.5)
    return sent + 100


def wait_until_done(pipeline: Pipeline, topics: Topics, kind: str, target: str, sent: int) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        records = topics.read(target)
        if kind == "counts":
            said = [(record.key, int(record.value or b"")) for record in records]
            assert len(said) == len(set(said)), "a count that only grows was said twice"
            done = sum(dict(sorted(said)).values()) == sent
        else:
            counts = Counter(int(record.value or b"") for record in records)
            assert not [number for number, times in counts.items() if times > 1], "a record came twice"
            done = len(counts) == sent
        if done:
            return
        assert time.monotonic() < end, f"not everything came: {pipeline.said()}"
        if not pipeline.running:
            pipeline.start()
        time.sleep(1)


def test_without_markers_a_killed_driver_shows_duplicates(tmp_path: Path) -> None:
    """The control: what dies is the driver, after a task has committed and before its batch is noted."""
    with cluster() as running:
        topics = Topics(running.bootstrap)
        for markers, wanted in (("true", 1), ("false", 2)):
            source, target = topics.create(partitions=2), topics.create(partitions=2)
            topics.send(source, [str(number).encode() for number in range(100)])
            directory = tmp_path / markers
            directory.mkdir()
            settings = {"bootstrap": running.bootstrap, "source": source, "target": target, "kind": "copy"}
            with Pipeline(directory, **settings, markers=markers) as pipeline:
                arm(directory, "driver-committed")
                pipeline.start()
                assert pipeline.wait_for_end(240), pipeline.said()
                pipeline.start()
                end = time.monotonic() + 240
                while not (directory / "checkpoint" / "commits" / "0").exists():
                    assert time.monotonic() < end, pipeline.said()
                    time.sleep(0.5)
            counts = Counter(record.value for record in topics.read(target))
            assert set(counts.values()) == {wanted}
        topics.close()
