"""The audit of three nodes with TLS and SASL: every event is in the files of its node once, and in the topic once."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from ottla.cli.app import run
from ottla.sasl.scram import ScramClient
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.raw_client import RawClient
from tests.support.secured_up import SecuredUp

NODES = (1, 2, 3)
MECHANISM = "SCRAM-SHA-512"
GUESSES, DENIALS, STRANGERS = 3, 4, 2
Events = list[dict[str, Any]]


class AuditedCluster(SecuredUp):
    def __init__(self, directory: Path) -> None:
        self.audit = directory / "audit"
        settings = {
            "ottla.audit.authorization": "denied",
            "ottla.audit.authentication": "all",
            "ottla.audit.dir": str(self.audit),
            "ottla.audit.topic": "true",
            "connection.failed.authentication.delay.ms": "0",
        }
        words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
        super().__init__(directory / "data", nodes=len(NODES), more=tuple(words))

    def addresses(self) -> dict[int, str]:
        brokers = AdminClient(self.librdkafka()).list_topics(timeout=60).brokers
        return {node_id: f"{broker.host}:{broker.port}" for node_id, broker in brokers.items()}

    def encrypted(self, address: str) -> RawClient:
        client = RawClient(address)
        context = ssl.create_default_context(cafile=str(self.file("ca.pem")))
        client.socket = context.wrap_socket(client.socket, server_hostname=address.rpartition(":")[0])
        return client

    def log_in(self, client: RawClient, user: str, password: str) -> int:
        client.call(SaslHandshakeRequest(mechanism=MECHANISM), 1)
        exchange = ScramClient(MECHANISM, user, password)
        first = client.call(SaslAuthenticateRequest(auth_bytes=exchange.begin()), 2)
        final = client.call(SaslAuthenticateRequest(auth_bytes=exchange.evaluate(bytes(first.auth_bytes))), 2)
        code: int = final.error_code
        return code

    def search(self, *arguments: str) -> Events:
        command = [str(Path(sys.executable).parent / "ottla"), "audit", "--json", "--limit", "100000", *arguments]
        command += ["--command-config", str(self.file("client.properties"))]
        completed = subprocess.run(command, capture_output=True, text=True, timeout=60)
        events: Events = json.loads(completed.stdout) if completed.returncode == 0 and completed.stdout else []
        return events

    def in_files(self, *arguments: str) -> Events:
        return self.search("--file", str(self.audit), *arguments)


def work(cluster: AuditedCluster) -> None:
    """On every node: guesses of a password, denials of a user, and clients that do not complete a handshake."""
    config = ["--command-config", str(cluster.file("client.properties"))]
    assert run(["configs", "alter", "--user", "alice", "--set", f"{MECHANISM}=[password=alice-secret]", *config]) == 0
    for address in cluster.addresses().values():
        for _ in range(GUESSES):
            with cluster.encrypted(address) as client:
                assert cluster.log_in(client, "alice", "a-guess") != 0
        with cluster.encrypted(address) as client:
            # A node may learn of a new user a moment after its creation.
            if cluster.log_in(client, "alice", "alice-secret") == 0:
                for number in range(DENIALS):
                    topic = CreatableTopic(name=f"forbidden-{number}", num_partitions=1, replication_factor=1)
                    client.call(CreateTopicsRequest(topics=[topic], timeout_ms=5_000), 7)
        host, _, port = address.rpartition(":")
        for _ in range(STRANGERS):
            with socket.create_connection((host, int(port)), timeout=30) as stranger:
                stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
                while stranger.recv(1000):
                    pass


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuditedCluster]:
    with AuditedCluster(tmp_path_factory.mktemp("audited")) as running:
        work(running)
        yield running


def until(condition: Callable[[], bool]) -> None:
    """Waits for the condition, because events are written a little later than they happen."""
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def keys(events: Events) -> Counter[str]:
    return Counter(json.dumps(event, sort_keys=True) for event in events)


def by_node(events: Events) -> dict[int, int]:
    return dict(sorted(Counter(event["node"] for event in events).items()))


REFUSED = ("--stream", "authentication", "--decision", "refused")


@pytest.mark.parametrize("place", ["topic", "files"])
def test_every_event_of_every_node_is_found_once(cluster: AuditedCluster, place: str) -> None:
    search = cluster.search if place == "topic" else cluster.in_files

    def guesses() -> dict[int, int]:
        return by_node([event for event in search(*REFUSED) if event["mechanism"] == MECHANISM])

    def strangers() -> dict[int, int]:
        return by_node([event for event in search(*REFUSED) if event["mechanism"] == "TLS"])

    def denials() -> dict[int, int]:
        events = search("--stream", "authorization", "--decision", "denied", "--resource", "TOPIC:forbidden-*")
        return by_node(events)

    until(lambda: guesses() == dict.fromkeys(NODES, GUESSES))
    until(lambda: strangers() == dict.fromkeys(NODES, STRANGERS))
    until(lambda: denials() == dict.fromkeys(NODES, DENIALS))
    accepted = search("--stream", "authentication", "--decision", "accepted", "--principal", "User:alice")
    assert by_node(accepted) == dict.fromkeys(NODES, 1)


def test_the_files_and_the_topic_agree(cluster: AuditedCluster) -> None:
    written = keys(cluster.in_files())
    until(lambda: not written - keys(cluster.search()))
    in_topic = keys(cluster.search())
    until(lambda: not in_topic - keys(cluster.in_files()))


def test_nodes_that_log_in_at_each_other_are_told_of(cluster: AuditedCluster) -> None:
    accepted = cluster.in_files("--stream", "authentication", "--decision", "accepted")
    listeners = {event["listener"] for event in accepted if event["principal"] != "User:alice"}
    assert len(listeners) > 1, listeners
