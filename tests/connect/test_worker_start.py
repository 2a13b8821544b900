"""The checks of a worker before it starts Spark, and their error messages."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.client.admin.topics import NewTopic
from ottla.client.blocking import BlockingAdmin
from ottla.connect.api.config_definitions import ConfigError
from ottla.connect.configuration.worker_config import WorkerConfig
from ottla.connect.control.stores.offsets import FileOffsetStore
from ottla.connect.worker import Worker
from ottla.testing import Cluster, cluster
from tests.support.connect_workers import FakeEngine, fake_worker, plugins_for_tests, worker_properties


@pytest.fixture(scope="module")
def broker() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


FACTORS = tuple(f"{kind}_storage_replication_factor" for kind in ("config", "offset", "status"))


def test_a_single_broker_holds_the_topics_of_a_worker_that_does_not_say_how_many_replicas(
    broker: Cluster, tmp_path: Path
) -> None:
    async def run() -> set[int]:
        nothing_said = dict.fromkeys(FACTORS)
        async with fake_worker(broker.bootstrap, tmp_path, distributed=True, **nothing_said) as (worker, *_):
            assert worker.herder is not None
            topics = [f"connect-{kind}" for kind in ("config", "offset", "status")]
            metadata = await worker.herder.cluster.refresh(topics)
            return {len(metadata.topics[topic].partitions[0].replicas) for topic in topics}

    assert asyncio.run(run()) == {1}


@pytest.mark.parametrize("setting", FACTORS)
def test_a_replication_factor_that_is_too_large_is_named_before_spark_starts(
    broker: Cluster, tmp_path: Path, setting: str
) -> None:
    started: list[FakeEngine] = []

    def engine(*arguments: Any) -> FakeEngine:
        started.append(FakeEngine(*arguments, []))
        return started[0]

    async def run() -> None:
        name = f"many-{setting.partition('_')[0]}"
        properties = worker_properties(broker.bootstrap, tmp_path, name=name, **{setting: "3"})
        async with Worker(WorkerConfig(properties, distributed=True), engine=engine, plugins=plugins_for_tests()):
            pytest.fail("it started")

    key = setting.replace("_", ".")
    with pytest.raises(ConfigError, match=rf"{re.escape(key)} is 3, but the cluster has 1 brokers") as raised:
        asyncio.run(run())
    assert raised.value.name == key
    assert not started[0].is_started


@pytest.mark.parametrize(
    ("kind", "partitions", "policy", "reason"),
    [
        ("config", 1, "delete", "cleanup.policy=delete"),
        ("config", 3, "compact", "has 3 partitions and must have one"),
        ("offset", 25, "compact,delete", "cleanup.policy=compact,delete"),
        ("status", 5, "delete", "cleanup.policy=delete"),
    ],
)
def test_a_topic_that_would_lose_the_state_of_connectors_is_named_before_spark_starts(
    broker: Cluster, tmp_path: Path, kind: str, partitions: int, policy: str, reason: str
) -> None:
    name = f"unsuitable-{kind}-{partitions}-{policy.replace(',', '-')}"
    topic = f"{name}-{kind}"
    with BlockingAdmin({"bootstrap.servers": broker.bootstrap}) as admin:
        admin.topics.create([NewTopic(name=topic, partitions=partitions, configs={"cleanup.policy": policy})])

    async def run() -> None:
        async with fake_worker(broker.bootstrap, tmp_path, distributed=True, name=name):
            pytest.fail("it started")

    with pytest.raises(ConfigError, match=re.escape(reason)) as raised:
        asyncio.run(run())
    assert raised.value.name == f"{kind}.storage.topic"


def test_an_address_that_is_taken_and_a_file_that_cannot_be_written_are_named(tmp_path: Path) -> None:
    async def run(**settings: str) -> None:
        properties = worker_properties("127.0.0.1:1", tmp_path, **settings)
        async with Worker(WorkerConfig(properties, distributed=False), plugins=plugins_for_tests()):
            pytest.fail("it started")

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ConfigError, match=r"listeners: cannot listen on 127.0.0.1:\d+: Address already in use"):
            asyncio.run(run(listeners=f"http://127.0.0.1:{taken.getsockname()[1]}"))
    with pytest.raises(ConfigError, match=r"offset\.storage\.file\.filename: cannot write .*: Is a directory"):
        asyncio.run(FileOffsetStore(tmp_path).start())
