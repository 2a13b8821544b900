"""The processes of a mirror on Spark are killed at random, for FAULTS_SECONDS; then both sides are equal.

Drivers, executors and Python workers: each kind is killed at least once, and every kill waits until records were copied
since the last one.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections import Counter
from itertools import chain, repeat
from pathlib import Path

import pytest

from ottla.client.admin import AdminClient
from ottla.client.admin.offsets import LATEST
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition
from ottla.testing.clusters import Cluster, cluster
from tests.faults.test_mirror_killed import check_equal, write_numbers
from tests.mirror.flows import create, properties_of
from tests.support.spark_pipeline import Pipeline

pytestmark = [pytest.mark.faults, pytest.mark.spark, pytest.mark.timeout(1800)]

# Two executors, each with one of the two workers of the flow.
MASTER = "local-cluster[2,1,1024]"
KINDS = ("executor", "driver", "worker")
PARTITIONS = 4
PATIENCE_SECONDS = 240.0


@pytest.mark.parametrize("offsets", ["translated", "exact"])
def test_both_sides_are_equal_after_kills_on_spark(
    tmp_path: Path, offsets: str, faults_seconds: float, faults_seed: int
) -> None:
    asyncio.run(equal_after_kills(tmp_path, offsets, faults_seconds, random.Random(faults_seed)))


async def equal_after_kills(directory: Path, offsets: str, seconds: float, chance: random.Random) -> None:
    with cluster() as source, cluster() as target:
        await create(source, "t", partitions=PARTITIONS)
        properties = properties_of(source, target, {"ottla.offsets": offsets, "tasks.max": "2", "topics": "t"})
        file = directory / "mm2.properties"
        file.write_text("\n".join(f"{key} = {value}" for key, value in properties.items()))
        command = [sys.executable, "-m", "ottla.cli.main", "mirror", str(file), "--master", MASTER]
        written: list[int] = []
        is_over = False
        writing = asyncio.ensure_future(write_numbers(source.bootstrap, written, lambda: is_over))
        with Pipeline(directory, command=command) as mirror:
            try:
                killed = await kill_for(seconds, mirror, target, chance)
            finally:
                is_over = True
                await writing
            if not mirror.running:
                mirror.start()
            await check_equal(source, target, properties, written)
        print(f"{offsets}: {len(written)} records, {mirror.starts} drivers, killed {dict(killed)}")


async def kill_for(seconds: float, mirror: Pipeline, target: Cluster, chance: random.Random) -> Counter[str]:
    killed: Counter[str] = Counter()
    end = time.monotonic() + seconds
    copied = 0
    mirror.start()
    # Each kind once, whatever the time.
    for victim in chain(KINDS, (chance.choice(KINDS) for _ in repeat(None))):
        if time.monotonic() >= end and all(killed[kind] for kind in KINDS):
            return killed
        copied = await more_copied(mirror, target, copied)
        await asyncio.sleep(chance.uniform(0.0, 3.0))
        if victim == "driver" and mirror.running:
            await asyncio.to_thread(mirror.kill_driver)
            killed[victim] += 1
        elif victim != "driver":
            killed[victim] += mirror.kill_worker(chance, executor=victim == "executor", is_connected=True)
        print(f"{victim} at {copied} offsets", flush=True)
    raise AssertionError("there is always another victim")


async def more_copied(mirror: Pipeline, target: Cluster, before: int) -> int:
    """Waits until the copy has grown, and returns its size. A mirror that was killed is started again."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while (copied := await size_of_copy(target)) <= before:
        assert time.monotonic() < deadline, f"nothing is copied: {mirror.said()}"
        if not mirror.running:
            mirror.start()
        await asyncio.sleep(0.2)
    return copied


async def size_of_copy(target: Cluster) -> int:
    async with AdminClient({"bootstrap.servers": target.bootstrap}) as admin:
        end_offsets = await admin.offsets.find({TopicPartition("a.t", number): LATEST for number in range(PARTITIONS)})
    return sum(offset.offset for offset in end_offsets.values() if not isinstance(offset, KafkaError))
