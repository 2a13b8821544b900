"""A mirror and brokers on both sides are killed at random, for FAULTS_SECONDS; then both sides are equal."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ottla.client.producer import Producer
from ottla.mirror.settings import read_settings
from ottla.testing.clusters import Cluster, cluster, node_environment
from tests.mirror.flows import create, has_no_lag, numbers_of, properties_of, read_all, until, without_offsets

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1800)]

COMMAND = [sys.executable, "-m", "ottla.cli.main", "mirror"]


@pytest.mark.parametrize("offsets", ["translated", "exact"])
def test_both_sides_are_equal_after_kills(
    tmp_path: Path, offsets: str, exactly_once_seconds: float, faults_seed: int
) -> None:
    choose = random.Random(faults_seed)
    # The files survive a kill; three nodes on each side, so that a kill is no outage of a partition for long.
    with cluster(nodes=3) as source, cluster(nodes=3) as target:
        asyncio.run(create(source, "t", partitions=4, replication_factor=3, configs={"min.insync.replicas": "2"}))
        properties = properties_of(
            source,
            target,
            {"ottla.offsets": offsets, "tasks.max": "2", "topics": "t", "replication.factor": "3"},
        )
        file = tmp_path / "mm2.properties"
        file.write_text("\n".join(f"{key} = {value}" for key, value in properties.items()))
        written, kills = run_under_kills(source, target, str(file), choose, exactly_once_seconds)
        running = start(str(file))
        try:
            asyncio.run(check_equal(source, target, properties, written))
        finally:
            running.kill()
            running.wait()
        print(f"{offsets}: {len(written)} records, {kills} kills")


async def check_equal(source: Cluster, target: Cluster, properties: Mapping[str, str], written: list[int]) -> None:
    """The copy of topic `t` has what was written, once and in order; in an exact copy at the same offsets."""
    settings = read_settings(properties)
    await asyncio.wait_for(until(lambda: has_no_lag(settings)), 180)
    theirs = await read_all(source.bootstrap, "t", len(written))
    ours = await read_all(target.bootstrap, "a.t", len(written))
    assert numbers_of(theirs) == sorted(written)
    if properties["ottla.offsets"] == "exact":
        assert ours == theirs, "records or offsets differ"
    else:
        assert without_offsets(ours) == without_offsets(theirs), "records or their order in a partition differ"


async def write_numbers(bootstrap: str, written: list[int], is_over: Callable[[], bool]) -> None:
    """Adds the acknowledged numbers to the list."""
    number = 0
    async with Producer({"bootstrap.servers": bootstrap, "linger.ms": 1}) as producer:
        while not is_over():
            numbers = range(number, number + 50)
            deliveries = [await producer.send("t", b"v%d" % value, key=b"%d" % value) for value in numbers]
            for value, delivery in enumerate(deliveries, number):
                await delivery
                written.append(value)
            number += 50
            await asyncio.sleep(0.01)


def start(file: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*COMMAND, file, "--threads"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=node_environment()
    )


def run_under_kills(
    source: Cluster, target: Cluster, file: str, choose: random.Random, seconds: float
) -> tuple[list[int], int]:
    """Writes and kills for a while. Returns the acknowledged numbers and how many processes were killed."""
    written: list[int] = []
    kills = 0
    is_over = False

    async def kill() -> None:
        nonlocal kills, is_over
        mirror = start(file)
        end = time.monotonic() + seconds
        try:
            while time.monotonic() < end:
                await asyncio.sleep(choose.uniform(1.0, 6.0))
                kills += 1
                victim = choose.choice(["mirror", "mirror", "source", "target"])
                if victim == "mirror":
                    mirror.send_signal(signal.SIGKILL)
                    mirror.wait()
                    mirror = start(file)
                    continue
                side = source if victim == "source" else target
                node_id = choose.choice([1, 2, 3])
                await asyncio.to_thread(side.node(node_id).kill)
                await asyncio.sleep(choose.uniform(0.2, 2.0))
                await asyncio.to_thread(side.node(node_id).start)
        finally:
            is_over = True
            mirror.kill()
            mirror.wait()

    async def write_and_kill() -> None:
        await asyncio.gather(write_numbers(source.bootstrap, written, lambda: is_over), kill())

    asyncio.run(write_and_kill())
    return written, kills
