"""A connector in a distribution of its own, from `ottla connect new` to records in a topic, created over REST."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.client.consumer import Consumer, ConsumerSettings
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.connect.api.scaffold import write_connector
from ottla.connect.plugins import Plugins
from ottla.testing import Cluster, cluster
from tests.support.connect_workers import PlainConverter, fake_worker

WAIT_SECONDS = 240


@pytest.fixture(scope="module")
def broker() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


@pytest.fixture(scope="module")
def site_packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory of the import path where pip has installed the distribution `squares`."""
    sources, target = tmp_path_factory.mktemp("sources"), tmp_path_factory.mktemp("site")
    write_connector("squares", kind="source", directory=sources)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "--target", str(target), str(sources / "squares")], check=True, timeout=WAIT_SECONDS)
    return target


def test_rest_lists_it_and_plans_its_tasks(
    broker: Cluster, site_packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(site_packages))
    plugins = Plugins()
    plugins.add(PlainConverter)

    async def scenario() -> None:
        async with fake_worker(broker.bootstrap, tmp_path, distributed=False, plugins=plugins) as (_, api, started):
            listed = {entry["class"]: entry["type"] for entry in await api.get("/connector-plugins")}
            assert listed["squares.connector.SquaresSource"] == "source"
            config = {"connector.class": "SquaresSource", "topic": "planned", "count": "-1"}
            status, refused = await api.call("POST", "/connectors", {"name": "squares", "config": config})
            assert status == 400
            assert "count is '-1'" in refused["message"]
            config["count"] = "3"
            assert (await api.call("POST", "/connectors", {"name": "squares", "config": config}))[0] == 201
            await api.wait("/connectors/squares/status", lambda body: [part["state"] for part in body["tasks"]])
            assert {task.spec.connector.__module__ for task in started} == {"squares.connector"}

    asyncio.run(scenario())


@pytest.mark.slow
def test_its_records_come_to_the_topic(broker: Cluster, site_packages: Path, tmp_path: Path) -> None:
    (tmp_path / "worker.properties").write_text(
        f"bootstrap.servers={broker.bootstrap}\n"
        "key.converter=LongConverter\nvalue.converter=JsonConverter\nvalue.converter.schemas.enable=false\n"
        f"offset.storage.file.filename={tmp_path}/offsets\n"
        "listeners=http://127.0.0.1:0\ntrigger.interval.ms=100\nspark.master=local[2,4]\n"
    )
    log = tmp_path / "log"
    with log.open("w") as output:
        worker = subprocess.Popen(
            [sys.executable, "-m", "ottla.cli.main", "connect", "standalone", "worker.properties"],
            cwd=tmp_path,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": str(site_packages)},
        )
    try:
        wait_for(worker, log, lambda: "Connect answers at" in log.read_text())
        answers_at = re.search(r"Connect answers at (\S+)", log.read_text())
        assert answers_at is not None
        config = {"connector.class": "SquaresSource", "topic": "squares", "count": "5"}
        put(answers_at.group(1) + "connectors/squares/config", config)
        wait_for(worker, log, lambda: '"read":5' in offsets(tmp_path / "offsets"))
    finally:
        worker.terminate()
        assert worker.wait(60) == 0
    values = asyncio.run(read(broker.bootstrap, "squares", 5))
    assert values == [{"number": number, "square": number * number} for number in range(5)]


async def read(bootstrap: str, topic: str, count: int) -> list[Any]:
    settings = ClientSettings(bootstrap_servers=parse_bootstrap(bootstrap))
    values: list[Any] = []
    consumed = ConsumerSettings(auto_offset_reset="earliest", read_committed=True)
    async with Consumer(settings, consumed) as consumer, asyncio.timeout(60):
        await consumer.assign(await consumer.partitions(topic))
        while len(values) < count:
            values += [json.loads(record.value or b"null") for record in await consumer.poll()]
    return values


def put(url: str, body: dict[str, str]) -> None:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(url, data=json.dumps(body).encode(), method="PUT", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            assert answer.status == 201
    except urllib.error.HTTPError as error:
        raise AssertionError(error.read().decode()) from error


def offsets(path: Path) -> str:
    return path.read_text().replace(" ", "") if path.exists() else ""


def wait_for(worker: subprocess.Popen[bytes], log: Path, holds: Callable[[], bool]) -> None:
    end = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert worker.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.1)
