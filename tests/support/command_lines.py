"""Fixtures for commands of `ottla` beside Kafka's own tools, on the same cluster.

`BROKER=kafka` gives three brokers of Apache Kafka instead. Our commands run in this process, Kafka's in the one JVM.
"""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import ottla.testing
from ottla.cli.app import run as run_command
from tests.support.all_brokers import until_all_know
from tests.support.broker_clusters import KafkaCluster
from tests.support.java import ToolServer, unavailable_reason

__all__ = ["Answer", "Cluster", "Ours", "Theirs", "cluster", "ours", "theirs"]


class Cluster(NamedTuple):
    bootstrap: str
    # The log directories of the nodes 1, 2 and 3.
    directories: dict[int, Path]

    @property
    def log_directory(self) -> Path:
        return self.directories[1]

    def settle(self) -> None:
        """Returns when every node has replayed the changes of the previous command."""
        until_all_know(self.bootstrap.split(","))


class Answer(NamedTuple):
    code: int
    stdout: str
    stderr: str

    @property
    def json(self) -> Any:
        return json.loads(self.stdout)


Ours = Callable[..., Answer]
Theirs = Callable[..., str]

SETTINGS = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.heartbeat.interval.ms": "200",
    # Long enough that a busy machine causes no elections.
    "controller.quorum.request.timeout.ms": "10000",
    "controller.quorum.fetch.timeout.ms": "10000",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if reason := unavailable_reason():
        pytest.skip(f"Java tests: {reason}")
    if os.environ.get("BROKER") == "kafka":
        with KafkaCluster(tmp_path_factory.mktemp("kafka"), SETTINGS, heap="512M") as brokers:
            yield Cluster(brokers.bootstrap, brokers.log_directories)
    else:
        with ottla.testing.cluster(nodes=3, settings=SETTINGS) as running:
            yield Cluster(running.bootstrap, {number: running.node(number).directory / "data" for number in (1, 2, 3)})


@pytest.fixture
def ours(cluster: Cluster, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Ours:
    """Runs a command of `ottla`."""
    monkeypatch.setenv("OTTLA_BOOTSTRAP_SERVER", cluster.bootstrap)

    def call(*words: str | int, stdin: str = "", code: int = 0) -> Answer:
        cluster.settle()
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        capfdbinary.readouterr()
        status = run_command([str(word) for word in words])
        sys.stdout.flush()
        out, err = capfdbinary.readouterr()
        answer = Answer(status, out.decode(), err.decode())
        assert "Traceback" not in answer.stderr
        assert status == code, answer
        return answer

    return call


@pytest.fixture
def theirs(java: ToolServer, cluster: Cluster) -> Theirs:
    """Runs one of Kafka's tools and returns its output."""

    def call(tool: str, *words: str | int, stdin: str = "", status: int = 0) -> str:
        cluster.settle()
        arguments = ["--bootstrap-server", cluster.bootstrap, *words]
        if tool == "ClusterTool":
            arguments = [words[0], "--bootstrap-server", cluster.bootstrap, *words[1:]]
        result = java.run(tool, *arguments, stdin=stdin)
        assert result.status == status, result
        return result.stdout

    return call
