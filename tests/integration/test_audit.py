"""The audit of a node: allowed and denied requests and logins, in files and in the topic `__audit`."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from tests.support.sasl_node import PASSWORD, SaslNode, librdkafka

Search = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SaslNode]:
    directory = tmp_path_factory.mktemp("node")
    settings = {
        "ottla.audit.authorization": "all",
        "ottla.audit.authentication": "all",
        "ottla.audit.dir": str(directory / "audit"),
        "ottla.audit.topic": "true",
        "ottla.audit.read.sample": "2",
    }
    with SaslNode(directory, settings) as running:
        work(running)
        yield running


def work(node: SaslNode) -> None:
    """alice writes to an allowed and to a denied topic, and another client guesses a password."""
    errors: list[Any] = []
    alice = confluent_kafka.Producer(librdkafka(node, "PLAIN"))
    for topic in ("orders", "secrets"):
        alice.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error))
    alice.flush(30)
    assert len(errors) == 2
    wrong = {**librdkafka(node, "PLAIN"), "sasl.password": f"not-{PASSWORD}"}
    failures: list[Any] = []
    stranger = confluent_kafka.Producer({**wrong, "error_cb": failures.append})
    deadline = time.monotonic() + 60
    while not failures and time.monotonic() < deadline:
        stranger.poll(0.1)
    assert failures


def searched(node: SaslNode, *arguments: str) -> list[dict[str, Any]]:
    words = [str(Path(sys.executable).parent / "ottla"), "audit", "-b", node.node.bootstrap, "--json", *arguments]
    completed = subprocess.run(words, capture_output=True, text=True, timeout=60)
    return json.loads(completed.stdout) if completed.returncode == 0 else []


@pytest.fixture(params=["topic", "files"])
def search(request: pytest.FixtureRequest, node: SaslNode) -> Search:
    """Searches until events match, because events are written a little later than they happen."""
    place = ("--file", str(node.node.directory / "audit")) if request.param == "files" else ()

    def find(*arguments: str) -> list[dict[str, Any]]:
        deadline = time.monotonic() + 60
        while not (events := searched(node, *place, *arguments)) and time.monotonic() < deadline:
            time.sleep(0.05)
        return events

    return find


def test_a_denial_names_all_that_matters(search: Search) -> None:
    event = search("--decision", "denied", "--resource", "TOPIC:secrets", "--principal", "User:alice")[0]
    assert event["stream"] == "authorization"
    assert event["address"] == "127.0.0.1"
    assert event["listener"] == "CLIENTS"
    assert event["api"] in ("Metadata", "Produce")
    assert event["operation"] in ("DESCRIBE", "WRITE")
    assert event["rule"] == "no ACL allows it"
    assert event["node"] == 1
    assert isinstance(event["correlation_id"], int)


def test_what_was_allowed_names_the_rule(search: Search) -> None:
    event = search("--decision", "allowed", "--resource", "orders", "--operation", "write")[0]
    assert event["principal"] == "User:alice"
    assert event["rule"] == "ALLOW ALL on LITERAL TOPIC:orders for User:alice from *"
    assert event["sample"] == 1


def test_super_users_are_told_of(search: Search) -> None:
    assert search("--api", "CreateTopics", "--decision", "allowed")[0]["rule"] == "super user"


def test_logins_are_told_of_without_secrets(search: Search) -> None:
    accepted = search("--stream", "authentication", "--decision", "accepted")[0]
    assert (accepted["principal"], accepted["mechanism"]) == ("User:alice", "PLAIN")
    refused = search("--stream", "authentication", "--decision", "refused")[0]
    assert refused["reason"]
    assert PASSWORD not in json.dumps(refused)


def test_nothing_is_found_in_another_time(node: SaslNode) -> None:
    assert searched(node, "--until", "2020-01-01T00:00:00Z") == []
    assert searched(node, "--principal", "User:nobody") == []
