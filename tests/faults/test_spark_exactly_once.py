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
from tests.support.victims import victims

pytestmark = [pytest.mark.faults, pytest.mark.spark, pytest.mark.timeout(0)]

# The time limit of a pipeline to catch up after the last kill.
PATIENCE_SECONDS = 600.0
# The time limit of a driver for its first two batches.
START_SECONDS = 240.0
# The time limit for a Python worker to appear: Spark keeps some workers, and starts others for a task.
LOOK_SECONDS = 30.0
COPIES = {"copy": 1, "distinct": 3, "counts": 1, "processor": 1}


@pytest.mark.parametrize(
    ("kind", "master"),
    [
        ("copy", "local[2,4]"),
        ("copy", "local-cluster[2,1,1024]"),
        ("distinct", "local[2,4]"),
        ("counts", "local[2,4]"),
        ("processor", "local[2,4]"),
    ],
)
def test_everything_arrives_once(
    faults_seconds: float, faults_seed: int, tmp_path: Path, kind: str, master: str
) -> None:
    chance = random.Random(faults_seed)
    sent, killed = 0, Counter[str]()
    kinds = ("driver", "worker", "broker", *(("executor",) if "cluster" in master else ()))
    with cluster(nodes=3) as running:
        topics = Topics(running.bootstrap)
        source, target = topics.create(partitions=3), topics.create(partitions=3)
        settings = {"bootstrap": running.bootstrap, "source": source, "target": target, "kind": kind, "master": master}
        with Pipeline(tmp_path, **settings) as pipeline:
            pipeline.start()
            began = time.monotonic()
            for victim in victims(chance, kinds, seconds=faults_seconds):
                # The driver is spared until it has recorded two batches: killing an idle driver tests nothing.
                quiet, batches_before_kill = time.monotonic() + START_SECONDS, pipeline.batches() + 2
                while pipeline.batches() < batches_before_kill:
                    assert time.monotonic() < quiet, f"no batches: {pipeline.said()}"
                    if not pipeline.running:
                        pipeline.start()
                    sent = send_more(topics, source, sent, kind)
                time.sleep(chance.uniform(0, 1))
                killed[victim] += kill(victim, pipeline, running, chance)
                print(
                    f"{time.monotonic() - began:.0f} s: {victim} killed after {batches_before_kill} batches", flush=True
                )
            if not pipeline.running:
                pipeline.start()
            wait_until_done(pipeline, topics, kind, target, sent)
        print(f"{kind} on {master}: {sent} sent, {pipeline.starts} drivers, killed {dict(killed)}")
        assert all(killed[process_kind] for process_kind in kinds), f"some kinds of process were not killed: {killed}"
        topics.close()


def kill(victim: str, pipeline: Pipeline, running: Cluster, chance: random.Random) -> bool:
    """False if no process of that kind runs at the moment."""
    if victim == "driver":
        if pipeline.running:
            pipeline.kill_driver()
        pipeline.start()
        return True
    if victim == "broker":
        node = running.node(chance.randrange(1, 4))
        node.kill()
        time.sleep(chance.uniform(0, 3))
        node.start()
        return True
    end = time.monotonic() + LOOK_SECONDS
    while not pipeline.kill_worker(chance, executor=victim == "executor"):
        if time.monotonic() >= end or not pipeline.running:
            return False
        time.sleep(0.05)
    return True


def send_more(topics: Topics, source: str, sent: int, kind: str) -> int:
    values = [str(number).encode() for number in range(sent, sent + 100)] * COPIES[kind]
    topics.send(source, values, partition=sent // 100 % 3)
    time.sleep(0.5)
    return sent + 100


def wait_until_done(pipeline: Pipeline, topics: Topics, kind: str, target: str, sent: int) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        records = topics.read(target)
        if kind in ("counts", "processor"):
            key_counts = [(record.key, int(record.value or b"")) for record in records]
            assert len(key_counts) == len(set(key_counts)), "a count that only grows was said twice"
            done = sum(dict(sorted(key_counts)).values()) == sent
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
    """The control: the driver dies after a task has committed and before its batch is recorded."""
    with cluster() as running:
        topics = Topics(running.bootstrap)
        for markers, copies in (("true", 1), ("false", 2)):
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
            assert set(counts.values()) == {copies}
        topics.close()
