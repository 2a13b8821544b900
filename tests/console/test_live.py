"""The live stream: shared by all viewers, silent without viewers."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import ottla.testing
from tests.support.consoles import Browser


def next_event(answer: Any) -> Any:
    for line in answer:
        if line.startswith(b"data: "):
            return json.loads(line[6:])
    raise AssertionError("The stream ended.")


@pytest.fixture
def topic(browser: Browser, cluster: ottla.testing.Cluster) -> str:
    """A new topic that the console knows."""
    name = f"ticks-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, 1)])[name].result(60)
    # Makes the console read the topic at once. It polls seldom where reading takes long, as on a busy machine.
    browser.get(f"/api/topics/{name}")
    return name


def test_rates_and_lag_arrive(browser: Browser, cluster: ottla.testing.Cluster, topic: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    with browser.stream("/api/live") as answer:
        first = next_event(answer)
        assert (first["health"], first["brokers_alive"], first["brokers_total"]) == ("ok", 1, 1)
        assert first["bytes_in_per_second"] is None, "This node has no metrics page."
        for _ in range(60):
            producer.produce(topic, value=b"x")
            producer.flush(60)
            event = next_event(answer)
            if event["records_in_per_second"] > 0:
                break
        assert event["topics"][0]["name"] == topic
    points = browser.get("/api/live/history")["points"]
    assert points[-1]["records_in_per_second"] == event["records_in_per_second"]
    assert "topics" not in points[-1]


def test_two_viewers_get_the_same_events(browser: Browser, console: Any) -> None:
    with browser.stream("/api/live") as first_stream, console.browser().stream("/api/live") as second_stream:
        times = {next_event(first_stream)["time"] for _ in range(3)}
        assert next_event(second_stream)["time"] in times or next_event(second_stream)["time"] in times


def test_nothing_is_read_while_nobody_looks(browser: Browser, topic: str) -> None:
    with browser.stream("/api/live") as answer:
        next_event(answer)
    before = len(browser.get("/api/live/history")["points"])
    # Each of these takes a moment; a reader would go on meanwhile.
    for _ in range(3):
        with browser.stream(f"/api/topics/{topic}/tail") as tail:
            tail.readline()
    assert len(browser.get("/api/live/history")["points"]) <= before + 1
