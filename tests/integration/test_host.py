"""`ottla host`: the nodes of a machine from one file, with real processes and a third-party client."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.host.free_ports import free_ports
from tests.support.port_ranges import ports_in_a_row

LIMIT_SECONDS = 120.0
NODES_MAX = 3


def eventually(condition: Callable[[], Any]) -> Any:
    """Waits for a true result; only a broken host reaches the time limit."""
    end = time.monotonic() + LIMIT_SECONDS
    while not (outcome := condition()):
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.1)
    return outcome


class Host:
    def __init__(self, directory: Path, *, nodes: int) -> None:
        self.file = directory / "host.properties"
        (controller,) = free_ports(1)
        self.port, self.kept = ports_in_a_row(NODES_MAX)
        self.settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "log.dirs": str(directory / "data"),
            "ottla.metrics.listener": "127.0.0.1:0",
            "default.replication.factor": "2",
            "min.insync.replicas": "1",
            "offsets.topic.replication.factor": "1",
        }
        self.write(nodes)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ottla.cli.main", "host", "--config", str(self.file)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.ready = self.process.stdout.readline().split()

    def write(self, nodes: int, **overrides: str) -> None:
        settings = {**self.settings, "ottla.host.nodes": str(nodes), **overrides}
        self.file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))

    def ask(self, verb: str) -> list[dict[str, Any]]:
        answer = self.run(verb, "--json")
        assert answer.returncode == 0, answer.stderr
        rows: list[dict[str, Any]] = json.loads(answer.stdout)
        return rows

    def run(self, verb: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ottla.cli.main", "host", verb, "--config", str(self.file), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def page(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.ready[2].replace("/metrics", path)) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    running = Host(tmp_path, nodes=2)
    yield running
    running.process.send_signal(signal.SIGTERM)
    assert running.process.wait(LIMIT_SECONDS) == 0
    assert running.process.stdout is not None
    running.process.stdout.close()
    for kept in running.kept:
        kept.close()


def test_a_machine_is_one_thing_to_operate(host: Host) -> None:
    bootstrap = host.ready[1]
    assert host.ready[0] == "ready"
    assert bootstrap == f"127.0.0.1:{host.port},127.0.0.1:{host.port + 1}"
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    errors: list[Any] = []

    def write(number: int) -> None:
        producer.produce("t", str(number).encode(), on_delivery=lambda error, _: errors.append(error))
        producer.poll(0)

    write(0)
    assert producer.flush(LIMIT_SECONDS) == 0

    # A single metrics page and a single health answer cover all nodes.
    status, page = host.page("/metrics")
    assert status == 200
    assert [f'ottla_host_node_up{{node="{node}"}} 1' in page for node in (1, 2)] == [True, True]
    assert 'kafka_server_replicamanager_partitioncount{node="2"}' in page
    assert host.page("/health/ready") == (200, "ready\n")

    # A killed node is restarted.
    os.kill(host.ask("status")[1]["pid"], signal.SIGKILL)
    eventually(lambda: host.page("/health/ready")[0] == 503)
    eventually(lambda: host.page("/health/ready")[0] == 200)
    assert [node["restarts"] for node in host.ask("status")] == [0, 1]

    # The nodes restart one by one, under load.
    before = [node["pid"] for node in host.ask("status")]
    restarting = subprocess.Popen(
        [sys.executable, "-m", "ottla.cli.main", "host", "restart", "--config", str(host.file)],
        stdout=subprocess.DEVNULL,
    )
    written = 1
    while restarting.poll() is None:
        write(written)
        written += 1
        time.sleep(0.01)
    assert restarting.returncode == 0
    assert producer.flush(LIMIT_SECONDS) == 0
    assert set(before).isdisjoint(node["pid"] for node in host.ask("status"))
    assert set(errors) == {None}
    assert _count(bootstrap) == written


def test_nodes_are_added_and_removed_while_the_others_run(host: Host) -> None:
    pids = [node["pid"] for node in host.ask("status")]
    host.write(3)
    added = host.ask("reload")
    assert [node["node"] for node in added] == [1, 2, 3]
    assert [node["pid"] for node in added[:2]] == pids

    # A node with replicas is not removed, and the message names the command that moves the replicas.
    admin = AdminClient({"bootstrap.servers": host.ready[1]})
    admin.create_topics([NewTopic("spread", 6, 2)])["spread"].result(LIMIT_SECONDS)
    eventually(lambda: 'partitioncount{node="3"} 4' in host.page("/metrics")[1])
    host.write(2)
    assert "ottla balance run --drain 3" in host.run("reload").stderr
    admin.delete_topics(["spread"])["spread"].result(LIMIT_SECONDS)
    eventually(lambda: 'partitioncount{node="3"} 0' in host.page("/metrics")[1])
    assert [node["node"] for node in host.ask("reload")] == [1, 2]

    # An invalid file is refused, and nothing changes.
    host.write(0)
    assert "between 1 and 1024" in host.run("reload").stderr
    assert [(node["pid"], node["state"]) for node in host.ask("status")] == [(pid, "ready") for pid in pids]


def _count(bootstrap: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    values: set[bytes] = set()
    end = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < end:
        message = consumer.poll(1.0)
        if message is None and values:
            break
        if message is not None and message.error() is None:
            values.add(message.value() or b"")
    consumer.close()
    return len(values)
