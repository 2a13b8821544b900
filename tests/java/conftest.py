"""One broker and one JVM for all tests here; topics are named after the test, so that tests share no topics."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support import jars
from tests.support.brokers import QUICK_JVM_OPTIONS, Broker, OttlaNode, QuickKafka
from tests.support.java import PROGRAMS, ToolResult, ToolServer, unavailable_reason

Tool = Callable[..., ToolResult]

# Tools whose first argument is a verb, after which the address goes.
VERBS = {"ClusterTool", "TransactionsCommand"}

CLIENT_PROGRAMS = [PROGRAMS / f"{name}.java" for name in ("ClientCalls", "ConsumerCalls", "GroupMembers")]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(item.fspath).parent.name == "java":
            item.add_marker(pytest.mark.java)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Ottla, or Apache Kafka where `BROKER=kafka` asks for it."""
    require_java()
    kind = QuickKafka if os.environ.get("BROKER") == "kafka" else OttlaNode
    settings = {
        "log.segment.bytes": "1048576",
        "auto.create.topics.enable": "false",
        # Groups should not wait for members that never come, nor members long for their partitions.
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.heartbeat.interval.ms": "200",
        "group.consumer.min.heartbeat.interval.ms": "200",
    }
    with kind(tmp_path_factory.mktemp("broker"), settings) as node:
        yield node


@pytest.fixture(scope="session")
def java() -> Iterator[ToolServer]:
    require_java()
    programs = [*CLIENT_PROGRAMS, PROGRAMS / "ClientFacts.java", PROGRAMS / "PartitionChanges.java"]
    with ToolServer(programs=programs, options=QUICK_JVM_OPTIONS) as server:
        yield server


@pytest.fixture(scope="session", params=["4.3", "4.4"])
def clients(request: pytest.FixtureRequest, java: ToolServer) -> Iterator[ToolServer]:
    """A JVM with our programs on the Java clients of a release. The tools of 4.4 are not published."""
    if request.param == "4.3":
        yield java
        return
    require_java(jars.CLIENTS_4_4)
    with ToolServer(programs=CLIENT_PROGRAMS, jar_set=jars.CLIENTS_4_4, options=QUICK_JVM_OPTIONS) as server:
        yield server


@pytest.fixture
def run(java: ToolServer, broker: Broker) -> Tool:
    """Runs a tool against the broker and expects it to succeed, unless `status` says otherwise."""

    def run(tool: str, *arguments: str | int, stdin: str = "", status: int | None = 0) -> ToolResult:
        words = [str(argument) for argument in arguments]
        position = 1 if tool in VERBS and not words[0].startswith("-") else 0
        # This one tool has the address before its verb.
        position = 0 if tool == "TransactionsCommand" else position
        words[position:position] = ["--bootstrap-server", broker.bootstrap]
        result = java.run(tool, *words, stdin=stdin)
        assert status is None or result.status == status, result.stdout + result.stderr
        return result

    return run


@pytest.fixture
def run_client(clients: ToolServer, broker: Broker) -> Tool:
    """Runs a program of ours on the Java clients of each release, and expects it to succeed."""

    def run(program: str, *arguments: str | int, stdin: str = "") -> ToolResult:
        result = clients.run(program, "--bootstrap-server", broker.bootstrap, *arguments, stdin=stdin)
        assert result.status == 0, result.stdout + result.stderr
        return result

    return run


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    return re.sub(r"[^a-zA-Z0-9._-]", "-", str(request.node.name))


def require_java(jar_set: Path = jars.TOOLS) -> None:
    if reason := unavailable_reason(jar_set):
        pytest.skip(f"Java tests: {reason}")
