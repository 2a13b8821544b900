"""Topics through the API: created, described, changed and deleted, with a description before each change."""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

import ottla.testing
from tests.support.consoles import Browser


@pytest.fixture
def topic(browser: Browser) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    browser.change("POST", "/api/topics", {"name": name, "partitions": 2, "settings": {"retention.ms": "1000"}})
    return name


def test_a_dry_run_tells_and_changes_nothing(browser: Browser, cluster: ottla.testing.Cluster) -> None:
    planned = browser.change("POST", "/api/topics", {"name": "planned", "partitions": 3, "dry_run": True})
    assert planned["plan"] == ["Creates topic planned with 3 partitions and the cluster's number of replicas."]
    assert planned["command"] == "ottla topics create planned --partitions 3"
    assert "result" not in planned
    assert "planned" not in AdminClient({"bootstrap.servers": cluster.bootstrap}).list_topics().topics


def test_the_broker_checks_a_dry_run(browser: Browser, topic: str) -> None:
    taken = {"name": topic, "dry_run": True}
    assert browser.failure("POST", "/api/topics", taken) == (409, "TOPIC_ALREADY_EXISTS")
    bad = {"name": "other", "settings": {"cleanup.policy": "sometimes"}, "dry_run": True}
    assert browser.failure("POST", "/api/topics", bad) == (400, "INVALID_CONFIG")
    many = {"name": "other", "replication_factor": 9, "dry_run": True}
    assert browser.failure("POST", "/api/topics", many) == (400, "INVALID_REPLICATION_FACTOR")


def test_a_new_topic_is_in_the_list_at_once(browser: Browser, topic: str) -> None:
    (item,) = browser.get(f"/api/topics?filter={topic}")["items"]
    assert item["partitions"] == 2


def test_a_topic_tells_partitions_and_settings(browser: Browser, topic: str) -> None:
    description = browser.get(f"/api/topics/{topic}")
    assert [
        (partition["partition"], partition["isr"], partition["last_offset"])
        for partition in description["partition_list"]
    ] == [
        (0, [1], 0),
        (1, [1], 0),
    ]
    settings = {setting["name"]: setting for setting in description["settings"]}
    assert (settings["retention.ms"]["value"], settings["retention.ms"]["source"]) == ("1000", "DYNAMIC_TOPIC_CONFIG")
    assert settings["cleanup.policy"]["is_default"]
    assert settings["cleanup.policy"]["documentation"]
    assert browser.get(f"/api/topics/{topic}/partitions?size=1&page=2")["items"][0]["partition"] == 1


def test_settings_change_and_fall_back(browser: Browser, topic: str) -> None:
    path = f"/api/topics/{topic}/settings"
    planned = browser.change("PUT", path, {"set": {"retention.ms": "5000"}, "dry_run": True})
    assert planned["plan"] == [f"Sets retention.ms of topic {topic} to 5000 (now 1000)."]
    browser.change("PUT", path, {"set": {"cleanup.policy": "compact,delete"}, "unset": ["retention.ms"]})
    settings = {setting["name"]: setting for setting in browser.get(f"/api/topics/{topic}")["settings"]}
    assert settings["cleanup.policy"]["value"] == "compact,delete"
    assert settings["retention.ms"]["source"] == "DEFAULT_CONFIG"
    assert browser.failure("PUT", path, {"set": {"retention.ms": "long"}, "dry_run": True}) == (400, "INVALID_CONFIG")


def test_partitions_are_added(browser: Browser, topic: str) -> None:
    changed = browser.change("POST", f"/api/topics/{topic}/partitions", {"count": 5})
    assert changed["plan"] == [f"Adds 3 partitions to topic {topic}, which has 2."]
    assert changed["warnings"][0] == "Records with the same key may go to another partition from now on."
    assert browser.get(f"/api/topics/{topic}")["partitions"] == 5
    assert browser.failure("POST", f"/api/topics/{topic}/partitions", {"count": 1}) == (400, "INVALID_REQUEST")


def test_records_are_deleted(browser: Browser, topic: str, cluster: ottla.testing.Cluster) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for _ in range(5):
        producer.produce(topic, value=b"x", partition=1)
    producer.flush(60)
    deleted = browser.change("POST", f"/api/topics/{topic}/delete-records", {"before": {"1": 3}})
    assert deleted["plan"] == [f"Deletes 3 records of {topic}-1: those before offset 3."]
    assert deleted["result"] == {"first_offsets": {"1": 3}}
    assert browser.get(f"/api/topics/{topic}")["records"] == 2


def test_a_topic_is_deleted(browser: Browser, topic: str) -> None:
    deleted = browser.change("DELETE", f"/api/topics/{topic}", {})
    assert deleted["warnings"] == ["A deleted topic cannot be brought back."]
    assert browser.failure("GET", f"/api/topics/{topic}") == (404, "UNKNOWN_TOPIC_OR_PARTITION")


def test_brokers_and_the_quorum(browser: Browser) -> None:
    (broker,) = browser.get("/api/brokers")["items"]
    assert (broker["id"], broker["is_controller"], broker["is_alive"]) == (1, True, True)
    detail = browser.get("/api/brokers/1")
    assert detail["log_dirs"][0]["error"] is None
    assert "log.dirs" in {setting["name"] for setting in detail["settings"]}
    assert browser.failure("GET", "/api/brokers/9") == (404, "NOT_FOUND")
    quorum = browser.get("/api/quorum")
    assert [voter["id"] for voter in quorum["voters"]] == [1]
    assert quorum["leader"] == 1


def test_settings_of_brokers(browser: Browser) -> None:
    changed = browser.change("PUT", "/api/brokers/default/settings", {"set": {"log.retention.ms": "86400000"}})
    assert changed["plan"][0].startswith("Sets log.retention.ms of all brokers to 86400000")
    browser.change("PUT", "/api/brokers/1/settings", {"set": {"log.cleaner.threads": "2"}, "dry_run": True})
    browser.change("PUT", "/api/brokers/default/settings", {"unset": ["log.retention.ms"]})
