"""A balancing plan in the browser: its picture, its run, its stop and its resumption, on three nodes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import ottla.testing
from tests.support.consoles import ConsoleProcess, console_process

OpenPage = Callable[..., Any]
PARTITIONS = 12


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.testing.Cluster]:
    """All replicas of a topic are on broker 3."""
    # A throttle lets the first fetch pass: a replica must need several, so that a throttled move is still going on.
    small = {"replica.fetch.max.bytes": "1024", "replica.fetch.response.max.bytes": "1024"}
    with ottla.testing.cluster(nodes=3, settings=small) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        topic = NewTopic("slow", PARTITIONS, replica_assignment=[[3]] * PARTITIONS)
        admin.create_topics([topic])["slow"].result(60)
        producer = Producer({"bootstrap.servers": running.bootstrap})
        for number in range(PARTITIONS):
            for _ in range(3):
                producer.produce("slow", partition=number, value="x" * 1_000)
        assert producer.flush(60) == 0
        yield running


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("console") / "journal.json"


@pytest.fixture(scope="module")
def console(cluster: ottla.testing.Cluster, journal: Path) -> Iterator[ConsoleProcess]:
    with console_process(cluster.bootstrap, "--journal", str(journal)) as running:
        yield running


def test_a_plan_is_shown_run_stopped_and_resumed(open_page: OpenPage, journal: Path) -> None:
    page = open_page("/balance")
    page.click("button:has-text('Balance…')")
    page.fill("#field-drain", "3")
    # A byte per second: no move ends.
    page.fill("#field-throttle", "0.000001")
    page.uncheck("dialog input[name=guard]")
    page.wait_for_selector("dialog .plan .copyable:has-text('--drain 3 --throttle 1 --no-guard')")
    before, after = (section.inner_text() for section in page.query_selector_all("dialog .layouts section"))
    assert before.startswith("Before")
    assert after.startswith("After")
    assert "Broker 3\n0, leads 0" in after
    assert "Broker 3\n0, leads 0" not in before
    moved = page.locator("dialog table.preview:has-text('Brokers before') tbody tr")
    assert moved.count() == PARTITIONS
    assert moved.first.locator(".replica.leaves").inner_text() == "3"
    assert moved.first.locator(".replica.joins").inner_text() in ("1", "2")
    page.click("dialog footer button.primary:enabled")
    page.wait_for_selector("dialog[open]", state="detached")

    run = ".card:has(h2:has-text('Balancing'))"
    page.wait_for_selector(f"{run} .badge:has-text('running')")
    page.wait_for_selector(f"{run}:has-text('Step 1 of')")
    page.wait_for_selector(".card:has-text('Moves in progress') tr:has-text('slow-')")
    page.click(f"{run} button:has-text('Stop…')")
    page.wait_for_selector("dialog .plan li:has-text('Takes back the moves')")
    page.click("dialog footer button.danger:enabled")
    page.wait_for_selector(f"{run} .badge:has-text('interrupted')")
    assert "stopped the run. Step 1 was taken back" in page.inner_text(run)
    page.wait_for_selector("text=Nothing is moving")

    # The plan keeps its throttle, which is too low to finish.
    journal.write_text(json.dumps({**json.loads(journal.read_text()), "throttle": None}))
    page.click(f"{run} button:has-text('Resume…')")
    page.uncheck("dialog input[name=guard]")
    page.wait_for_selector("dialog .plan .copyable:has-text('ottla balance resume --no-guard')")
    page.click("dialog footer button.primary:enabled")
    page.wait_for_selector(f"{run} .badge:has-text('done')")
    assert f"{PARTITIONS} of {PARTITIONS} partitions moved" in page.inner_text(run)
    page.wait_for_selector("li:has-text('Broker 3'):has-text('0, leads 0')")
    assert page.query_selector(f"{run} button") is None
