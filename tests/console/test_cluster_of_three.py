"""The console of a cluster with three nodes: replicas move, a node is lost, and the console goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ottla.testing
from tests.support.consoles import Browser, ConsoleProcess, console_process


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.testing.Cluster]:
    with ottla.testing.cluster(nodes=3) as running:
        yield running


@pytest.fixture(scope="module")
def console(cluster: ottla.testing.Cluster) -> Iterator[ConsoleProcess]:
    with console_process(cluster.bootstrap, "--timeout", "5000") as running:
        yield running


def until(browser: Browser, path: str, is_reached: Callable[[Any], bool]) -> Any:
    """Asks until the answer is the expected one, for a minute at most."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        status, answer = browser.ask("GET", path)
        if status == 200 and is_reached(answer):
            return answer
    raise AssertionError(f"{path}: {answer}")


def test_replicas_move_with_a_picture(browser: Browser) -> None:
    browser.change("POST", "/api/topics", {"name": "moved", "partitions": 2, "replication_factor": 1})
    until(browser, "/api/topics/moved", lambda found: len(found["partition_list"]) == 2)
    start = [one["replicas"] for one in browser.get("/api/topics/moved")["partition_list"]]
    target = [[one % 3 + 1 for one in replicas] for replicas in start]
    wanted = [{"topic": "moved", "partition": number, "replicas": target[number]} for number in range(2)]
    told = browser.change("POST", "/api/reassignments", {"assignments": wanted, "dry_run": True})
    before = {one["id"]: one["replicas"] for one in told["before"]["brokers"]}
    after = {one["id"]: one["replicas"] for one in told["after"]["brokers"]}
    assert sum(before.values()) == sum(after.values())
    assert [one["replicas"] for one in told["after"]["partitions"]] == target
    browser.change("POST", "/api/reassignments", {"assignments": wanted})
    until(
        browser,
        "/api/topics/moved",
        lambda found: [one["replicas"] for one in found["partition_list"]] == target,
    )
    until(browser, "/api/reassignments", lambda found: found["items"] == [])
    other = next(broker for broker in (1, 2, 3) if [broker] != target[0])
    body = {"topics": ["moved"], "brokers": [other], "dry_run": True}
    spread = browser.change("POST", "/api/reassignments", body)
    assert {broker for one in spread["after"]["partitions"] for broker in one["replicas"]} == {other}
    browser.change("POST", "/api/elections", {"kind": "preferred"})
    assert browser.failure("DELETE", "/api/reassignments", {"partitions": [{"topic": "moved", "partition": 0}]}) == (
        404,
        "NO_REASSIGNMENT_IN_PROGRESS",
    )


def test_a_broker_is_drained(browser: Browser) -> None:
    browser.change("POST", "/api/topics", {"name": "drained", "partitions": 3, "replication_factor": 1})
    told = browser.change("POST", "/api/balance", {"drain": [3], "dry_run": True})
    after = {one["id"]: one["replicas"] for one in told["after"]["brokers"]}
    before = {one["id"]: one["replicas"] for one in told["before"]["brokers"]}
    assert before[3] > 0
    moved = {(one["topic"], one["partition"]): one["replicas"] for one in told["after"]["partitions"]}
    assert all(3 not in replicas for replicas in moved.values())
    assert after[3] == 0
    assert told["command"] == "ottla balance run --drain 3 --yes"
    assert told["goals"]
    assert browser.failure("POST", "/api/balance", {"drain": [9], "dry_run": True}) == (400, "INVALID_REQUEST")


def test_a_lost_node(browser: Browser, cluster: ottla.testing.Cluster) -> None:
    browser.change("POST", "/api/topics", {"name": "kept", "partitions": 6, "replication_factor": 3})
    browser.change("POST", "/api/topics/kept/messages", {"value": "x"})
    with browser.stream("/api/live") as live:
        cluster.node(2).kill()
        until(browser, "/api/overview", lambda found: found["brokers"] == {"total": 3, "alive": 2})
        overview = until(browser, "/api/overview", lambda found: found["under_replicated_partitions"] >= 6)
        assert overview["health"]["state"] in ("warning", "critical")
        for line in live:
            if line.startswith(b"data: ") and b'"brokers_alive":2' in line:
                break
    brokers = {one["id"]: one["is_alive"] for one in browser.get("/api/brokers")["items"]}
    assert brokers == {1: True, 2: False, 3: True}
    for path in (
        "/api/topics",
        "/api/topics/kept",
        "/api/groups",
        "/api/quorum",
        "/api/brokers/2",
        "/api/transactions",
    ):
        browser.get(path)
    (message,) = browser.get("/api/topics/kept/messages")["items"]
    assert message["value"]["value"] == "x"
    browser.change("POST", "/api/topics/kept/messages", {"value": "y"})
    assert browser.get("/api/topics?health=under-replicated")["total"] >= 1
    findings = browser.get("/api/doctor")["findings"]
    assert any("Broker 2" in one["title"] and one["severity"] == "critical" for one in findings)
    cluster.node(2).start()
    until(browser, "/api/overview", lambda found: found["health"]["state"] == "ok")
