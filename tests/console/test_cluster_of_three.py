"""The console of a cluster with three nodes: replicas move, a node is lost, and the console goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla.testing
from tests.support.consoles import Browser, ConsoleProcess, console_process


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.testing.Cluster]:
    # A throttle lets the first fetch pass: a replica must need several, so that a throttled move is still going on.
    small = {"replica.fetch.max.bytes": "1024", "replica.fetch.response.max.bytes": "1024"}
    with ottla.testing.cluster(nodes=3, settings=small) as running:
        yield running


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("console") / "journal.json"


@pytest.fixture(scope="module")
def console(cluster: ottla.testing.Cluster, journal: Path) -> Iterator[ConsoleProcess]:
    with console_process(cluster.bootstrap, "--timeout", "5000", "--journal", str(journal)) as running:
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
    until(browser, "/api/topics/moved", lambda topic: len(topic["partition_list"]) == 2)
    start = [partition["replicas"] for partition in browser.get("/api/topics/moved")["partition_list"]]
    target = [[broker % 3 + 1 for broker in replicas] for replicas in start]
    assignments = [{"topic": "moved", "partition": number, "replicas": target[number]} for number in range(2)]
    plan = browser.change("POST", "/api/reassignments", {"assignments": assignments, "dry_run": True})
    before = {broker["id"]: broker["replicas"] for broker in plan["before"]["brokers"]}
    after = {broker["id"]: broker["replicas"] for broker in plan["after"]["brokers"]}
    assert sum(before.values()) == sum(after.values())
    assert [partition["replicas"] for partition in plan["after"]["partitions"]] == target
    browser.change("POST", "/api/reassignments", {"assignments": assignments})
    until(
        browser,
        "/api/topics/moved",
        lambda topic: [partition["replicas"] for partition in topic["partition_list"]] == target,
    )
    until(browser, "/api/reassignments", lambda reassignments: reassignments["items"] == [])
    target_broker = next(broker for broker in (1, 2, 3) if [broker] != target[0])
    body = {"topics": ["moved"], "brokers": [target_broker], "dry_run": True}
    spread = browser.change("POST", "/api/reassignments", body)
    assert {broker for partition in spread["after"]["partitions"] for broker in partition["replicas"]} == {
        target_broker
    }
    browser.change("POST", "/api/elections", {"kind": "preferred"})
    assert browser.failure("DELETE", "/api/reassignments", {"partitions": [{"topic": "moved", "partition": 0}]}) == (
        404,
        "NO_REASSIGNMENT_IN_PROGRESS",
    )


def test_a_broker_is_drained(browser: Browser) -> None:
    browser.change("POST", "/api/topics", {"name": "drained", "partitions": 3, "replication_factor": 1})
    plan = browser.change("POST", "/api/balance", {"drain": [3], "dry_run": True})
    after = {broker["id"]: broker["replicas"] for broker in plan["after"]["brokers"]}
    before = {broker["id"]: broker["replicas"] for broker in plan["before"]["brokers"]}
    assert before[3] > 0
    moved = {
        (partition["topic"], partition["partition"]): partition["replicas"] for partition in plan["after"]["partitions"]
    }
    assert all(3 not in replicas for replicas in moved.values())
    assert after[3] == 0
    assert plan["command"] == "ottla balance run --drain 3 --yes"
    assert plan["goals"]
    assert browser.failure("POST", "/api/balance", {"drain": [9], "dry_run": True}) == (400, "INVALID_REQUEST")
    # No replica can move, which is not the same as a balanced cluster.
    status, answer = browser.ask("POST", "/api/balance", {"drain": [1, 2, 3], "dry_run": True})
    assert (status, answer["error"]["code"]) == (409, "NOT_AVAILABLE")
    assert "brokers 1, 2 and 3 are being emptied, and no other broker can take replicas." in answer["error"]["message"]
    assert answer["error"]["hint"] == "Add a broker, then run the command again."


def test_a_plan_runs_in_steps_and_is_stopped_and_resumed(browser: Browser, journal: Path) -> None:
    assert browser.get("/api/balance")["state"] == "idle"
    assert browser.failure("POST", "/api/balance/resume", {}) == (409, "NOTHING_TO_DO")
    assert browser.failure("DELETE", "/api/balance", {}) == (409, "NOTHING_TO_DO")
    for wrong in ({"throttle": 0}, {"throttle": "1"}, {"latency_factor": 0.5}, {"latency_factor": "x"}):
        assert browser.failure("POST", "/api/balance", {"drain": [3], **wrong}) == (400, "INVALID_REQUEST")
    on_three = [{"topic": "slow", "partition": number, "replicas": [3]} for number in range(12)]
    browser.change("POST", "/api/topics", {"name": "slow", "partitions": 12, "replication_factor": 1})
    for number in range(12):
        for _ in range(3):
            browser.change("POST", "/api/topics/slow/messages", {"value": "x" * 1_000, "partition": number})
    browser.change("POST", "/api/reassignments", {"assignments": on_three})
    until(browser, "/api/reassignments", lambda reassignments: reassignments["items"] == [])
    # With a byte per second no move ends.
    body = {"drain": [3], "throttle": 1, "latency_factor": None}
    balance = browser.change("POST", "/api/balance", body)
    assert balance["command"] == "ottla balance run --drain 3 --throttle 1 --no-guard --yes"
    assert balance["result"]["steps"] == balance["steps"] > 1
    # Not all moves at once: a broker gives and copies five replicas at a time.
    moving = until(browser, "/api/reassignments", lambda reassignments: reassignments["total"] > 0)
    assert moving["total"] < balance["result"]["moving"]
    running = until(browser, "/api/balance", lambda run: run["step"] == 1)
    assert (running["state"], running["steps"], running["user"]) == ("running", balance["steps"], "User:ANONYMOUS")
    assert running["partitions"] == balance["result"]["moving"] > running["partitions_done"]
    assert browser.failure("POST", "/api/balance", body) == (409, "NOT_FINISHED")
    stopped = browser.change("DELETE", "/api/balance", {})["result"]
    assert stopped["state"] == "interrupted"
    assert "User:ANONYMOUS stopped the run. Step 1 was taken back" in stopped["message"]
    assert browser.get("/api/reassignments")["items"] == []
    assert browser.failure("POST", "/api/balance", body) == (409, "NOT_FINISHED")
    # The journal is that of `ottla balance resume`; the throttle of a byte is too low to finish.
    content = json.loads(journal.read_text())
    journal.write_text(json.dumps({**content, "throttle": None}))
    browser.change("POST", "/api/balance/resume", {"latency_factor": None, "dry_run": True})
    balance = browser.change("POST", "/api/balance/resume", {"latency_factor": 1000})
    assert balance["command"] == "ottla balance resume --latency-factor 1000"
    done = until(browser, "/api/balance", lambda run: run["state"] != "running")
    assert (done["state"], done["message"], done["partitions_done"]) == ("done", None, done["partitions"])
    assert not journal.exists()
    slow = browser.get("/api/topics/slow")["partition_list"]
    assert all(3 not in partition["replicas"] for partition in slow)


def test_the_controller_is_the_leader_of_the_quorum(browser: Browser) -> None:
    """A metadata response may name any broker as controller."""
    leader = browser.get("/api/quorum")["leader"]
    assert browser.get("/api/overview")["controller"] == leader
    assert [broker["id"] for broker in browser.get("/api/brokers")["items"] if broker["is_controller"]] == [leader]


@pytest.fixture
def kept(browser: Browser) -> Iterator[str]:
    """A topic on every broker; it is deleted at the end, because no broker can be drained while it exists."""
    name = "kept"
    browser.change("POST", "/api/topics", {"name": name, "partitions": 6, "replication_factor": 3})
    yield name
    browser.change("DELETE", f"/api/topics/{name}", {})
    until(browser, "/api/topics", lambda topics: name not in {topic["name"] for topic in topics["items"]})


def test_a_lost_node(browser: Browser, cluster: ottla.testing.Cluster, kept: str) -> None:
    browser.change("POST", f"/api/topics/{kept}/messages", {"value": "x"})
    with browser.stream("/api/live") as live:
        cluster.node(2).kill()
        until(browser, "/api/overview", lambda overview: overview["brokers"] == {"total": 3, "alive": 2})
        overview = until(browser, "/api/overview", lambda overview: overview["under_replicated_partitions"] >= 6)
        assert overview["health"]["state"] in ("warning", "critical")
        for line in live:
            if line.startswith(b"data: ") and b'"brokers_alive":2' in line:
                break
    brokers = {broker["id"]: broker["is_alive"] for broker in browser.get("/api/brokers")["items"]}
    assert brokers == {1: True, 2: False, 3: True}
    for path in (
        "/api/topics",
        f"/api/topics/{kept}",
        "/api/groups",
        "/api/quorum",
        "/api/brokers/2",
        "/api/transactions",
    ):
        browser.get(path)
    (message,) = browser.get(f"/api/topics/{kept}/messages")["items"]
    assert message["value"]["value"] == "x"
    browser.change("POST", f"/api/topics/{kept}/messages", {"value": "y"})
    assert browser.get("/api/topics?health=under-replicated")["total"] >= 1
    findings = browser.get("/api/doctor")["findings"]
    assert any("Broker 2" in finding["title"] and finding["severity"] == "critical" for finding in findings)
    cluster.node(2).start()
    until(browser, "/api/overview", lambda overview: overview["health"]["state"] == "ok")
