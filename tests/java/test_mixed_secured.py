"""Nodes of Apache Kafka and of Ottla that encrypt and log in at each other."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.integration.cluster_calls import wait_until
from tests.java.conftest import require_java
from tests.java.test_mixed_cluster import formatted
from tests.support.brokers import Broker, OttlaFromFile, QuickKafka, free_ports
from tests.support.secured import Certificates

KINDS: dict[str, Callable[..., Broker]] = {"kafka": QuickKafka, "ottla": OttlaFromFile}
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
USERS = 'username="node" password="node-secret" user_node="node-secret" user_alice="alice-secret"'


def node_settings(certificates: Certificates, *, broker: int, controller: int, is_controller: bool) -> dict[str, str]:
    listeners = [f"BROKERS://127.0.0.1:{broker}"]
    if is_controller:
        listeners.append(f"CONTROLLER://127.0.0.1:{controller}")
    return {
        "process.roles": "broker,controller" if is_controller else "broker",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": ",".join(listeners),
        "listener.security.protocol.map": "BROKERS:SASL_SSL,CONTROLLER:SASL_SSL",
        "inter.broker.listener.name": "BROKERS",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.brokers.plain.sasl.jaas.config": f"{PLAIN} required {USERS};",
        "listener.name.controller.plain.sasl.jaas.config": f"{PLAIN} required {USERS};",
        "listener.name.controller.ssl.client.auth": "required",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:node;User:alice",
        **certificates.server_settings(),
    }


@pytest.mark.slow
@pytest.mark.parametrize(("controller", "other"), [("kafka", "ottla"), ("ottla", "kafka")])
def test_both_kinds_replicate_over_sasl_ssl(tmp_path: Path, controller: str, other: str) -> None:
    require_java()
    certificates = Certificates(tmp_path / "certificates")
    first_port, second_port, controller_port = free_ports(3)
    directory = tmp_path / "first"
    if controller == "ottla":
        formatted(directory)
    client: dict[str, Any] = {
        "bootstrap.servers": f"127.0.0.1:{first_port},127.0.0.1:{second_port}",
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(certificates.trusted),
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "alice-secret",
    }
    settings = node_settings(certificates, broker=first_port, controller=controller_port, is_controller=True)
    with KINDS[controller](directory, settings, node_id=1):
        settings = node_settings(certificates, broker=second_port, controller=controller_port, is_controller=False)
        with KINDS[other](tmp_path / "second", settings, node_id=2):
            admin = AdminClient(client)
            wait_until(lambda: len(admin.list_topics(timeout=30).brokers) == 2, "both are in the cluster")
            new = NewTopic("both", 2, 2, config={"min.insync.replicas": "2"})
            admin.create_topics([new])["both"].result(30)
            errors: list[Any] = []
            producer = confluent_kafka.Producer({**client, "acks": "all"})
            values = {f"value-{number}".encode() for number in range(200)}
            for value in values:
                producer.produce("both", value, on_delivery=lambda error, _: errors.append(error))
            assert producer.flush(60) == 0
            assert set(errors) == {None}
            consumer = confluent_kafka.Consumer({**client, "group.id": "unused"})
            consumer.assign([confluent_kafka.TopicPartition("both", number, 0) for number in (0, 1)])
            while values:
                message = consumer.poll(30)
                assert message is not None
                assert message.error() is None
                values.discard(message.value())
            consumer.close()
