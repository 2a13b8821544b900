"""The browser of records: seek, key, filter, search with progress, tail, produce, download."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import ottla.testing
from tests.support.consoles import Browser


@pytest.fixture(scope="module")
def orders(cluster: ottla.testing.Cluster) -> str:
    """100 orders in 3 partitions, a second apart."""
    make_topic(cluster, "orders", partitions=3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(100):
        producer.produce(
            "orders",
            key=f"customer-{number % 10}",
            value=json.dumps({"number": number, "amount": number * 10, "tags": ["a", "b"]}),
            headers=[("source", b"web" if number % 2 else b"shop")],
            timestamp=1_700_000_000_000 + number * 1000,
        )
    producer.flush(60)
    return "orders"


@pytest.fixture
def topic(cluster: ottla.testing.Cluster) -> str:
    name = f"m-{uuid.uuid4().hex[:8]}"
    make_topic(cluster, name, partitions=1)
    return name


def make_topic(cluster: ottla.testing.Cluster, name: str, *, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, partitions)])[name].result(60)


def numbers(answer: Any) -> list[int]:
    return [message["value"]["value"]["number"] for message in answer["items"]]


def test_the_newest_come_first(browser: Browser, orders: str) -> None:
    page = browser.get(f"/api/topics/{orders}/messages?limit=5")
    assert numbers(page) == [99, 98, 97, 96, 95]
    message = page["items"][0]
    assert message["key"] == {"type": "text", "value": "customer-9", "schema_id": None, "error": None}
    assert message["headers"][0]["name"] == "source"
    assert message["timestamp"] == 1_700_000_099_000


def test_older_records_follow(browser: Browser, orders: str) -> None:
    first = browser.get(f"/api/topics/{orders}/messages?limit=10&partition=0")
    at = ",".join(f"{number}:{offset}" for number, offset in first["previous"].items())
    second = browser.get(f"/api/topics/{orders}/messages?limit=10&partition=0&from=before&positions={at}")
    assert max(numbers(second)) < min(numbers(first))


def test_older_records_of_all_partitions_follow(browser: Browser, orders: str) -> None:
    """The limit leaves records out; they belong to the next page."""
    page, seen = browser.get(f"/api/topics/{orders}/messages?limit=7"), []
    while page["items"]:
        seen += numbers(page)
        at = ",".join(f"{number}:{offset}" for number, offset in page["previous"].items())
        page = browser.get(f"/api/topics/{orders}/messages?limit=7&from=before&positions={at}")
    assert seen == list(range(99, -1, -1))


def test_the_newest_records_are_shown_if_older_ones_are_huge(
    browser: Browser, cluster: ottla.testing.Cluster, topic: str
) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "message.max.bytes": 1_000_000})
    for number in range(25):
        producer.produce(topic, bytes(900_000) if number < 22 else b"small")
    producer.flush(60)
    page = browser.get(f"/api/topics/{topic}/messages")
    offsets = [message["offset"] for message in page["items"]]
    assert offsets[:4] == [24, 23, 22, 21]
    assert 0 < page["previous"]["0"] == offsets[-1]
    older = browser.get(f"/api/topics/{topic}/messages?from=before&positions=0:{page['previous']['0']}")
    assert [message["offset"] for message in older["items"]] == list(range(offsets[-1] - 1, -1, -1))


def test_from_an_offset_and_on(browser: Browser, orders: str) -> None:
    first = browser.get(f"/api/topics/{orders}/messages?from=offset&offset=2&partition=1&limit=3")
    assert [message["offset"] for message in first["items"]] == [2, 3, 4]
    assert first["next"] == {"1": 5}
    assert not first["is_complete"]
    second = browser.get(f"/api/topics/{orders}/messages?from=offset&partition=1&limit=3&positions=1:5")
    assert [message["offset"] for message in second["items"]] == [5, 6, 7]


def test_from_a_time(browser: Browser, orders: str) -> None:
    page = browser.get(f"/api/topics/{orders}/messages?from=timestamp&timestamp=1700000090000&limit=100")
    assert numbers(page) == list(range(90, 100))
    assert page["is_complete"]


def test_a_key_is_looked_up_in_its_partition(browser: Browser, orders: str) -> None:
    page = browser.get(f"/api/topics/{orders}/messages?key=customer-3&limit=100")
    assert numbers(page) == list(range(3, 100, 10))
    assert len({message["partition"] for message in page["items"]}) <= 2
    assert page["scanned"] < 100


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("customer-7", 10),
        ("CUSTOMER-7", 10),
        ("shop", 50),
        ("= value.amount > 900", 9),
        ('= headers.source == "web" && value.number < 10', 5),
        ('= key.matches("r-[12]$") && "a" in value.tags', 20),
        ("= offset == 0", 3),
        ("= value.missing > 3", 0),
        ("= value.tags.map(x, value.tags.map(y, value.tags.map(z, x + y + z))).size() == 2", 100),
    ],
)
def test_filters(browser: Browser, orders: str, text: str, count: int) -> None:
    from urllib.parse import quote

    page = browser.get(f"/api/topics/{orders}/messages?from=earliest&limit=500&timeout_ms=30000&filter={quote(text)}")
    assert len(page["items"]) == count


def test_a_filter_is_checked(browser: Browser) -> None:
    browser.get("/api/session")
    assert browser.change("POST", "/api/filter", {"filter": "= value.a > 1"})["ok"]
    verdict = browser.change("POST", "/api/filter", {"filter": "= value.a >"})
    assert not verdict["ok"]
    assert verdict["message"]
    python = browser.change("POST", "/api/filter", {"filter": "= __import__('os').system('true')"})
    assert python["ok"], "It is an expression; when it runs, there is no such function."


def test_an_expression_without_end_matches_nothing(browser: Browser, topic: str) -> None:
    browser.change("POST", f"/api/topics/{topic}/messages", {"value": json.dumps({"list": list(range(1000))})})
    deep = "= value.list.all(a, value.list.all(b, value.list.all(c, value.list.all(d, a + b + c + d >= 0))))"
    page = browser.get(f"/api/topics/{topic}/messages?filter={deep.replace(' ', '%20').replace('+', '%2B')}")
    assert (page["items"], page["scanned"]) == ([], 1)


def test_search_tells_progress_and_messages(browser: Browser, orders: str) -> None:
    with browser.stream(f"/api/topics/{orders}/search?from=earliest&limit=1000&filter=customer-4") as answer:
        assert answer.headers["Content-Type"] == "application/x-ndjson"
        lines = [json.loads(line) for line in answer]
    assert sum("message" in line for line in lines) == 10
    progress = [line["progress"] for line in lines if "progress" in line]
    assert progress[0] == {"scanned": 0, "total": 100, "matched": 0}
    assert progress[-1] == {"scanned": 100, "total": 100, "matched": 10}
    assert lines[-1]["done"]["reason"] == "end"


def test_a_search_that_is_closed_ends(browser: Browser, orders: str) -> None:
    for _ in range(70):
        with browser.stream(f"/api/topics/{orders}/search?from=earliest&limit=1000") as answer:
            answer.readline()
    # Searches that had not ended would count against the limit.
    assert browser.get(f"/api/topics/{orders}/messages?limit=1")["items"]


def events(answer: Any) -> Iterator[tuple[str, Any]]:
    """The events of a stream: name and value."""
    name = ""
    for line in answer:
        if line.startswith(b"event: "):
            name = line[7:].strip().decode()
        elif line.startswith(b"data: "):
            yield name, json.loads(line[6:])


def test_the_tail_shows_what_arrives(browser: Browser, topic: str) -> None:
    browser.change("POST", f"/api/topics/{topic}/messages", {"value": "before"})
    with browser.stream(f"/api/topics/{topic}/tail?filter=wanted") as answer:
        stream_events = events(answer)
        assert next(stream_events) == ("ready", {})
        browser.change("POST", f"/api/topics/{topic}/messages", {"value": "other"})
        browser.change("POST", f"/api/topics/{topic}/messages", {"value": "wanted"})
        name, messages = next(stream_events)
    assert name == "message"
    assert [message["value"]["value"] for message in messages] == ["wanted"]


def test_the_tail_of_a_topic_that_is_deleted_ends_with_the_reason(browser: Browser, topic: str) -> None:
    with browser.stream(f"/api/topics/{topic}/tail") as answer:
        stream_events = events(answer)
        assert next(stream_events) == ("ready", {})
        browser.change("DELETE", f"/api/topics/{topic}", {})
        # Until the console knows that the topic is gone, it may say that partitions have no leader.
        name, error = next(event for event in stream_events if event[0] != "trouble")
        assert (name, error["code"]) == ("error", "UNKNOWN_TOPIC_OR_PARTITION")
        assert topic in error["message"]
        assert list(stream_events) == []


def test_a_record_is_written(browser: Browser, topic: str) -> None:
    body = {"key": "k", "value": '{"a": 1}', "headers": [{"name": "h", "value": "x"}], "partition": 0}
    written = browser.change("POST", f"/api/topics/{topic}/messages", body)
    assert written["result"] == {"partition": 0, "offset": 0}
    browser.change("POST", f"/api/topics/{topic}/messages", {"key": "k", "value": None})
    browser.change("POST", f"/api/topics/{topic}/messages", {"value": "00ff", "encoding": "hex"})
    items = browser.get(f"/api/topics/{topic}/messages?from=earliest")["items"]
    assert [(item["value"]["type"], item["value"]["value"]) for item in items] == [
        ("json", {"a": 1}),
        ("null", None),
        ("hex", "00ff"),
    ]
    as_text = browser.get(f"/api/topics/{topic}/messages?from=earliest&decode=text&limit=1")["items"]
    assert as_text[0]["value"] == {"type": "text", "value": '{"a": 1}', "schema_id": None, "error": None}


def test_a_long_value_is_cut_and_downloaded_whole(browser: Browser, topic: str) -> None:
    browser.change("POST", f"/api/topics/{topic}/messages", {"value": "x" * 100_000})
    (item,) = browser.get(f"/api/topics/{topic}/messages")["items"]
    assert item["value"]["truncated"]
    assert len(item["value"]["value"]) == 65536
    status, body = browser.ask("GET", f"/api/topics/{topic}/download?format=value&partition=0&offset=0&from=offset")
    assert (status, body) == (200, "x" * 100_000)
    assert browser.headers["Content-Disposition"].startswith("attachment")


def test_a_value_with_script_is_data(browser: Browser, topic: str) -> None:
    script = "<script>alert(1)</script>"
    browser.change("POST", f"/api/topics/{topic}/messages", {"value": script, "key": script})
    (item,) = browser.get(f"/api/topics/{topic}/messages")["items"]
    assert item["value"]["value"] == script
    assert browser.headers["Content-Type"] == "application/json; charset=utf-8"
    assert browser.headers["X-Content-Type-Options"] == "nosniff"
    assert "script-src" not in browser.headers["Content-Security-Policy"]
    assert "default-src 'self'" in browser.headers["Content-Security-Policy"]
    browser.ask("GET", f"/api/topics/{topic}/download?format=value&partition=0&offset=0&from=offset")
    assert browser.headers["Content-Type"] == "application/octet-stream"
    browser.ask("GET", f"/api/topics/{topic}/{script}")
    assert browser.headers["Content-Type"] == "application/json; charset=utf-8"


def test_aborted_records_are_not_shown(browser: Browser, topic: str, cluster: ottla.testing.Cluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": topic})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce(topic, value=b"aborted")
    producer.flush(60)
    producer.abort_transaction(60)
    producer.begin_transaction()
    producer.produce(topic, value=b"committed")
    producer.commit_transaction(60)
    committed = browser.get(f"/api/topics/{topic}/messages?from=earliest")["items"]
    assert [item["value"]["value"] for item in committed] == ["committed"]
    uncommitted = browser.get(f"/api/topics/{topic}/messages?from=earliest&isolation=uncommitted")["items"]
    assert [item["value"]["value"] for item in uncommitted] == ["aborted", "committed"]


@pytest.mark.parametrize(
    "query", ["from=nowhere", "partition=7", "limit=0", "decode=morse", "positions=a", "filter=%3D("]
)
def test_what_makes_no_sense_is_refused(browser: Browser, orders: str, query: str) -> None:
    assert browser.failure("GET", f"/api/topics/{orders}/messages?{query}") == (400, "INVALID_REQUEST")
