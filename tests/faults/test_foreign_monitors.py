"""Third-party monitors, unchanged, on a cluster of three nodes.

They are Go programs that no package registry has: build kminion, kafka_exporter and Burrow from their sources, and put
`kminion`, `kafka_exporter` and `burrow` on the PATH. A program that is not there is skipped.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

import ottla.testing
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.host.free_ports import free_ports
from ottla.monitor.probe import Probe, ProbeSettings

pytestmark = pytest.mark.faults

WAIT_SECONDS_MAX = 90.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.testing.Cluster]:
    with ottla.testing.cluster(nodes=3) as running:
        yield running


def program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not on the PATH")
    return path


def probe(cluster: ottla.testing.Cluster, seconds: float) -> None:
    """Writes records and commits for the monitors to observe."""
    client = ClientSettings(bootstrap_servers=parse_bootstrap(cluster.bootstrap))
    work = Probe(client, ProbeSettings(), lambda _: None)
    asyncio.run(work.run(seconds=seconds, is_stopped=lambda: False, on_ready=lambda: None))


def page(url: str, is_whole: Callable[[str], bool]) -> str:
    """The page, once `is_whole` accepts it."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    text = ""
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                text = answer.read().decode()
        except OSError:
            text = ""
        if is_whole(text):
            return text
        time.sleep(0.5)
    raise AssertionError(f"{url} has not what it should have:\n{text[:2000]}")


def started(arguments: list[str], output: IO[str], **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(arguments, stdout=output, stderr=output, text=True, env=environment or None)


def test_kafka_exporter(cluster: ottla.testing.Cluster, tmp_path: Path) -> None:
    exporter = program("kafka_exporter")
    (port,) = free_ports(1)
    probe(cluster, 2)
    servers = [f"--kafka.server={address}" for address in cluster.bootstrap.split(",")]
    with (tmp_path / "log").open("w") as output:
        process = started([exporter, *servers, f"--web.listen-address=127.0.0.1:{port}"], output)
        try:
            text = page(f"http://127.0.0.1:{port}/metrics", lambda text: "kafka_consumergroup_lag{" in text)
        finally:
            process.kill()
            process.wait()
    assert "kafka_brokers 3" in text
    lags = re.findall(r'kafka_consumergroup_lag\{consumergroup="ottla-monitor".*\} (\S+)', text)
    assert lags == ["0"] * 3


def test_kminion(cluster: ottla.testing.Cluster, tmp_path: Path) -> None:
    kminion = program("kminion")
    (port,) = free_ports(1)
    configuration = tmp_path / "kminion.yaml"
    configuration.write_text(
        f"kafka: {{brokers: {json.dumps(cluster.bootstrap.split(','))}}}\n"
        "minion: {endToEnd: {enabled: true, topicManagement: {enabled: true, name: kminion-end-to-end}}}\n"
        f"exporter: {{host: 127.0.0.1, port: {port}}}\n"
    )
    received = re.compile(r"kminion_end_to_end_messages_received_total\{.*\} [1-9]")
    with (tmp_path / "log").open("w") as output:
        process = started([kminion], output, CONFIG_FILEPATH=str(configuration))
        try:
            text = page(f"http://127.0.0.1:{port}/metrics", lambda text: len(received.findall(text)) == 3)
        finally:
            process.kill()
            process.wait()
    assert 'kminion_kafka_cluster_info{broker_count="3"' in text
    assert set(re.findall(r"kminion_end_to_end_messages_lost_total\{.*\} (\S+)", text)) == {"0"}


def test_burrow(cluster: ottla.testing.Cluster, tmp_path: Path) -> None:
    burrow = program("burrow")
    (port,) = free_ports(1)
    servers = json.dumps(cluster.bootstrap.split(","))
    (tmp_path / "burrow.toml").write_text(
        f"""
[general]
pidfile = "{tmp_path}/pid"
[client-profile.profile]
client-id = "burrow"
kafka-version = "2.1.0"
[cluster.local]
class-name = "kafka"
servers = {servers}
client-profile = "profile"
topic-refresh = 10
offset-refresh = 2
[consumer.local]
class-name = "kafka"
cluster = "local"
servers = {servers}
client-profile = "profile"
[httpserver.default]
address = "127.0.0.1:{port}"
[storage.default]
class-name = "inmemory"
min-distance = 1
"""
    )
    with (tmp_path / "log").open("w") as output:
        process = started([burrow, "--config-dir", str(tmp_path)], output)
        try:
            # Burrow judges by ten commits that it has seen itself.
            probe(cluster, 15)
            url = f"http://127.0.0.1:{port}/v3/kafka/local/consumer/ottla-monitor/status"
            text = page(url, lambda text: '"complete":1' in text)
        finally:
            process.kill()
            process.wait()
    assert json.loads(text)["status"]["status"] == "OK"
