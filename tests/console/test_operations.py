"""Transactions, rights, quotas, roles, audit, mirrors and the doctor, on a node with access rules and an audit."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

import ottla.testing
from ottla.cli.app import run
from ottla.mirror.messages import Heartbeat
from tests.support.consoles import Browser

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "ottla.audit.topic": "true",
    "ottla.audit.authorization": "all",
}
ACL = {
    "principal": "User:alice",
    "host": "*",
    "operation": "READ",
    "permission": "ALLOW",
    "resource_type": "TOPIC",
    "resource_name": "orders",
    "pattern_type": "LITERAL",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.testing.Cluster]:
    with ottla.testing.cluster(settings=SETTINGS) as running:
        yield running


def first_items(browser: Browser, path: str) -> list[dict[str, Any]]:
    """A list as soon as it has items: the console shows changes by other clients a moment later."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        status, answer = browser.ask("GET", path)
        if status == 200 and answer["items"]:
            return list(answer["items"])
    raise AssertionError(f"{path} has no items: {answer}")


def test_features_of_this_cluster(browser: Browser) -> None:
    session = browser.get("/api/session")
    assert session["rights"] == {"read": True, "messages": True, "write": True}
    features = session["features"]
    assert features["acls"]
    assert features["quorum"]
    assert not features["registry"]
    assert not features["metrics"]
    assert browser.failure("GET", "/api/schemas") == (404, "NOT_AVAILABLE")
    assert browser.failure("GET", "/api/connectors") == (404, "NOT_AVAILABLE")


def test_access_rules(browser: Browser) -> None:
    planned = browser.change("POST", "/api/acls", {**ACL, "dry_run": True})
    assert planned["plan"] == ["From now on, User:alice may read topic orders."]
    browser.change("POST", "/api/acls", ACL)
    assert browser.get("/api/acls?principal=user:alice&operation=read")["items"] == [ACL]
    assert browser.get("/api/acls?principal=User:bob")["items"] == []
    browser.change("DELETE", "/api/acls", ACL)
    assert browser.get("/api/acls")["items"] == []
    assert browser.failure("DELETE", "/api/acls", ACL) == (404, "NOT_FOUND")
    assert browser.failure("POST", "/api/acls", {**ACL, "operation": "EAT"}) == (400, "INVALID_REQUEST")


def test_users(browser: Browser) -> None:
    created = browser.change("POST", "/api/users", {"name": "carol", "password": "secret"})
    assert "secret" not in str(created)
    (user,) = browser.get("/api/users?filter=carol")["items"]
    assert user == {"name": "carol", "mechanisms": [{"mechanism": "SCRAM-SHA-512", "iterations": 4096}]}
    browser.change("DELETE", "/api/users/carol", {})
    assert browser.get("/api/users?filter=carol")["items"] == []
    assert browser.failure("DELETE", "/api/users/carol", {}) == (404, "RESOURCE_NOT_FOUND")


def test_quotas(browser: Browser) -> None:
    body = {"entity": {"user": "dave"}, "set": {"producer_byte_rate": 1024}}
    browser.change("PUT", "/api/quotas", {**body, "dry_run": True})
    assert browser.get("/api/quotas")["items"] == []
    browser.change("PUT", "/api/quotas", body)
    default = {"entity": {"client-id": None}, "set": {"controller_mutation_rate": 99}}
    assert browser.change("PUT", "/api/quotas", default)["plan"] == [
        "Sets controller_mutation_rate of client-id <default> to 99."
    ]
    assert browser.get("/api/quotas?filter=dave")["items"] == [
        {"entity": {"user": "dave"}, "quotas": {"producer_byte_rate": 1024.0}}
    ]
    browser.change("PUT", "/api/quotas", {"entity": {"user": "dave"}, "unset": ["producer_byte_rate"]})
    assert browser.get("/api/quotas?filter=dave")["items"] == []
    wrong = {"entity": {"user": "dave"}, "set": {"producer_byte_rate": "fast"}}
    assert browser.failure("PUT", "/api/quotas", wrong) == (400, "INVALID_REQUEST")


def test_roles(browser: Browser, cluster: ottla.testing.Cluster) -> None:
    words = ["roles", "create", "reader", "--operation", "Read", "--topic", "orders", "-b", cluster.bootstrap]
    assert run(words) == 0
    (role,) = browser.get("/api/roles")["items"]
    assert role["rules"] == ["Its principal may read topic orders"]
    browser.change("POST", "/api/roles/reader/bindings", {"principal": "User:erin"})
    assert [rule["principal"] for rule in browser.get("/api/acls")["items"]] == ["User:erin"]
    assert browser.get("/api/roles")["items"][0]["bindings"] == ["User:erin"]
    browser.change("DELETE", "/api/roles/reader/bindings", {"principal": "User:erin"})
    assert browser.get("/api/acls")["items"] == []
    assert browser.failure("POST", "/api/roles/nobody/bindings", {"principal": "User:x"}) == (404, "NOT_FOUND")


def test_an_open_transaction_is_ended(browser: Browser, cluster: ottla.testing.Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic("payments", 1)])["payments"].result(60)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "transactional.id": "pay"})
    producer.init_transactions(60)
    producer.begin_transaction()
    producer.produce("payments", value=b"x")
    producer.flush(60)
    (item,) = browser.get("/api/transactions?state=Ongoing")["items"]
    assert (item["transactional_id"], item["partitions"]) == ("pay", 1)
    detail = browser.get("/api/transactions/pay")
    assert detail["partition_list"] == [{"topic": "payments", "partition": 0}]
    assert browser.get("/api/transactions/hanging?minutes=0")["items"] == []
    planned = browser.change("POST", "/api/transactions/pay/terminate", {"dry_run": True})
    assert "1 partition" in planned["plan"][0]
    browser.change("POST", "/api/transactions/pay/terminate", {})
    assert browser.get("/api/transactions?state=Ongoing")["items"] == []
    unknown = {"topic": "payments", "partition": 0, "start_offset": 7}
    assert browser.failure("POST", "/api/transactions/abort", unknown) == (404, "NOT_FOUND")


def test_changes_are_in_the_audit(browser: Browser) -> None:
    browser.change("POST", "/api/topics", {"name": "audited", "partitions": 1})
    entries = first_items(browser, "/api/audit?api=CreateTopics&limit=10")
    assert (entries[0]["principal"], entries[0]["allowed"]) == ("User:ANONYMOUS", True)
    assert entries[0]["resource"] == "CLUSTER:kafka-cluster"


def test_mirroring_flows(browser: Browser, cluster: ottla.testing.Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    for name in ("west.heartbeats", "west.orders"):
        admin.create_topics([NewTopic(name, 1)])[name].result(60)
    beat = Heartbeat("west", "east", 1_700_000_000_000)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    producer.produce("west.heartbeats", key=beat.key(), value=beat.value())
    producer.flush(60)
    (flow,) = first_items(browser, "/api/mirrors")
    assert (flow["source"], flow["target"], flow["last_heartbeat"]) == ("west", "east", 1_700_000_000_000)
    assert flow["topics"] == [{"name": "west.orders", "partitions": 1}]


def test_the_doctor(browser: Browser) -> None:
    browser.change("PUT", "/api/brokers/default/settings", {"set": {"unclean.leader.election.enable": "true"}})
    findings = browser.get("/api/doctor")["findings"]
    finding = next(finding for finding in findings if finding["check"] == "settings")
    assert finding["severity"] == "warning"
    fix = finding["fix"]
    assert fix["path"] == "/api/brokers/default/settings"
    browser.change(fix["method"], fix["path"], fix["body"])
    assert all(finding["check"] != "settings" for finding in browser.get("/api/doctor")["findings"])
