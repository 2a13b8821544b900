"""Lists of the API: pages, order and filters come from the server."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import ottla.testing
from tests.support.consoles import Browser, ConsoleProcess

NAMES = [f"page-{number:02}" for number in range(12)]


@pytest.fixture(scope="module", autouse=True)
def topics(cluster: ottla.testing.Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    new_topics = [NewTopic(name, num_partitions=1 + index % 3) for index, name in enumerate(NAMES)]
    for creation in admin.create_topics(new_topics).values():
        creation.result(60)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for _ in range(7):
        producer.produce("page-05", value=b"x" * 1000)
    producer.flush(60)


def test_a_list_has_pages(browser: Browser) -> None:
    first = browser.get("/api/topics?filter=PAGE-&size=5")
    assert [topic["name"] for topic in first["items"]] == NAMES[:5]
    assert (first["total"], first["page"], first["size"]) == (12, 1, 5)
    last = browser.get("/api/topics?filter=page-&size=5&page=3")
    assert [topic["name"] for topic in last["items"]] == NAMES[10:]
    assert browser.get("/api/topics?filter=page-&size=5&page=4")["items"] == []


def test_a_list_is_sorted_by_the_server(browser: Browser) -> None:
    by_name = browser.get("/api/topics?filter=page-&sort=-name&size=1")["items"]
    assert by_name[0]["name"] == NAMES[-1]
    by_partitions = browser.get("/api/topics?filter=page-&sort=-partitions&size=4")["items"]
    assert [topic["partitions"] for topic in by_partitions] == [3] * 4
    by_size = browser.get("/api/topics?filter=page-&sort=-bytes&size=1")["items"]
    assert by_size[0]["name"] == "page-05"


def test_a_topic_in_a_list_has_records_and_bytes(browser: Browser) -> None:
    (topic,) = browser.get("/api/topics?filter=page-05")["items"]
    assert topic["records"] == 7
    assert topic["bytes"] > 7000
    assert (topic["partitions"], topic["replication_factor"], topic["under_replicated"]) == (3, 1, 0)


@pytest.mark.parametrize("query", ["page=0", "size=501", "size=many", "sort=colour", "health=ill"])
def test_what_makes_no_sense_is_refused(browser: Browser, query: str) -> None:
    assert browser.failure("GET", f"/api/topics?{query}") == (400, "INVALID_REQUEST")


def test_the_overview(browser: Browser) -> None:
    overview = browser.get("/api/overview")
    assert overview["brokers"] == {"total": 1, "alive": 1}
    assert overview["topics"] >= 12
    assert overview["health"] == {"state": "ok", "findings": []}


def test_an_unknown_call_is_an_error_in_json(browser: Browser) -> None:
    assert browser.failure("GET", "/api/nothing") == (404, "NOT_FOUND")


def test_the_console_ends_in_order(cluster: ottla.testing.Cluster) -> None:
    running = ConsoleProcess(cluster.bootstrap)
    running.browser().get("/api/overview")
    assert "Traceback" not in running.stop()
    assert running.process.returncode == 0
    running.kill()
