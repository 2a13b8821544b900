"""A node with a SASL listener, users, topics and ACLs, for tests of logins with third-party clients."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from ottla.host.free_ports import free_ports
from ottla.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from tests.support.brokers import ApacheKafka, OttlaFromFile
from tests.support.raw_client import RawClient

__all__ = ["MECHANISMS", "PASSWORD", "PLAIN", "SCRAM", "SaslNode", "librdkafka"]

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PASSWORD = "alice-secret"
MECHANISMS = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]


class SaslNode:
    """A running node; `settings` extend and override its own settings."""

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        *,
        kind: type[OttlaFromFile] | type[ApacheKafka] = OttlaFromFile,
    ) -> None:
        (self.port,) = free_ports(1)
        self.node = kind(
            directory,
            {
                "listeners": "",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:ANONYMOUS;User:admin",
                "sasl.enabled.mechanisms": ",".join(MECHANISMS),
                "sasl.server.max.receive.size": "100000",
                "connection.failed.authentication.delay.ms": "0",
                "listener.name.clients.plain.sasl.jaas.config": (
                    f'{PLAIN} required username="x" password="y" user_alice="{PASSWORD}" user_bob="bob-secret";'
                ),
                # Apache Kafka requires a login module for every mechanism.
                "listener.name.clients.scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
                "listener.name.clients.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
                **(settings or {}),
            },
        )
        self.advertise("127.0.0.1")

    def advertise(self, host: str) -> None:
        """Sets the advertised host of the SASL listener."""
        inside = f"PLAINTEXT://127.0.0.1:{self.node._ports[0]},CONTROLLER://{self.node.controller}"
        outside = f"CLIENTS://{host}:{self.port}"
        self.node.settings["listeners"] = f"{inside},CLIENTS://127.0.0.1:{self.port}"
        self.node.settings["advertised.listeners"] = f"{inside.split(',')[0]},{outside}"
        self.node.settings["listener.security.protocol.map"] = (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:SASL_PLAINTEXT"
        )
        self.node.settings["inter.broker.listener.name"] = "PLAINTEXT"
        self.address = f"{host}:{self.port}"

    def __enter__(self) -> SaslNode:
        self.node.start()
        with RawClient(self.node.bootstrap) as administrator:
            self._add_users(administrator)
            rules = [("orders", 2, 2), ("workers", 3, 3)]
            creations = [
                AclCreation(
                    resource_type=kind,
                    resource_name=name,
                    principal="User:alice",
                    host="*",
                    operation=operation,
                    permission_type=3,
                )
                for name, kind, operation in rules
            ]
            answer = administrator.call(CreateAclsRequest(creations=creations), 3)
            assert [result.error_code for result in answer.results] == [0, 0]
        admin = AdminClient({"bootstrap.servers": self.node.bootstrap})
        for future in admin.create_topics([NewTopic("orders", 1, 1), NewTopic("secrets", 1, 1)]).values():
            future.result(30)
        return self

    def _add_users(self, administrator: RawClient) -> None:
        changes = []
        for number, mechanism in ((1, "SCRAM-SHA-256"), (2, "SCRAM-SHA-512")):
            salted = _salted(mechanism)
            changes.append(
                ScramCredentialUpsertion(
                    name="alice", mechanism=number, iterations=4096, salt=b"salt", salted_password=salted
                )
            )
        for change in changes:
            answer = administrator.call(AlterUserScramCredentialsRequest(upsertions=[change]), 0)
            assert [result.error_code for result in answer.results] == [0]

    def __exit__(self, *_: object) -> None:
        self.node.stop()


def _salted(mechanism: str) -> bytes:
    return hashlib.pbkdf2_hmac("sha256" if "256" in mechanism else "sha512", PASSWORD.encode(), b"salt", 4096)


def librdkafka(node: SaslNode, mechanism: str, password: str = PASSWORD, **overrides: Any) -> dict[str, Any]:
    return {
        "bootstrap.servers": node.address,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": "alice",
        "sasl.password": password,
        **overrides,
    }
