"""A cluster whose nodes encrypt all connections and log in to each other: it forms, fails over and grows."""

from __future__ import annotations

import hashlib
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.cli.commands.storage import storage
from ottla.host.free_ports import free_ports
from ottla.model.errors import ErrorCode
from ottla.sasl.scram import ScramClient
from ottla.testing.clusters import node_environment
from ottla.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.wire.messages.describe_acls import DescribeAclsRequest
from ottla.wire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.raw_client import RawClient
from tests.support.secured import Certificates

CLUSTER_ID = "T3R0bGFUZXN0Q2x1c3Rlcg"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
VOTERS = (1, 2, 3)
CREDENTIALS = ("name=node,password=node-secret", "name=admin,password=admin-secret,iterations=8192")
LISTENERS = ("CLIENTS", "BROKERS", "CONTROLLER")


class SecuredCluster:
    """Combined nodes. Brokers log in with SCRAM and show a certificate; controllers log in with PLAIN."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.certificates = Certificates(directory / "certificates")
        self.ports = {node_id: dict(zip(LISTENERS, free_ports(3), strict=True)) for node_id in (*VOTERS, 4)}
        self.running: dict[int, subprocess.Popen[bytes]] = {}

    def write(self, node_id: int) -> Path:
        is_voter = node_id in VOTERS
        names = LISTENERS if is_voter else LISTENERS[:2]
        login = 'username="node" password="node-secret"'
        settings = {
            "process.roles": "broker,controller" if is_voter else "broker",
            "node.id": str(node_id),
            "listeners": ",".join(f"{name}://127.0.0.1:{self.ports[node_id][name]}" for name in names),
            "listener.security.protocol.map": ",".join(f"{name}:SASL_SSL" for name in LISTENERS),
            "inter.broker.listener.name": "BROKERS",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(f"{v}@127.0.0.1:{self.ports[v]['CONTROLLER']}" for v in VOTERS),
            "log.dirs": str(self.directory / str(node_id)),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:node;User:admin",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
            "sasl.mechanism.controller.protocol": "PLAIN",
            # A login between brokers is repeated while the test runs.
            "listener.name.brokers.connections.max.reauth.ms": "2000",
            "listener.name.brokers.scram-sha-512.sasl.jaas.config": f"{SCRAM} required {login};",
            "listener.name.brokers.ssl.client.auth": "required",
            "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.controller.plain.sasl.jaas.config": f'{PLAIN} required {login} user_node="node-secret";',
            "offsets.topic.replication.factor": "3",
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            **self.certificates.server_settings(),
        }
        path = self.directory / f"{node_id}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path

    def format(self, node_id: int) -> None:
        flags = [flag for credential in CREDENTIALS for flag in ("--add-scram", f"SCRAM-SHA-512=[{credential}]")]
        arguments = ["format", "-t", CLUSTER_ID, "-c", str(self.write(node_id)), *flags]
        assert storage(arguments, standalone_mode=False) == 0

    def start(self, node_id: int) -> None:
        with self.output(node_id).open("ab") as output:
            self.running[node_id] = subprocess.Popen(
                [sys.executable, "-m", "ottla.cli.main", "node", "--config", str(self.write(node_id))],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=node_environment(),
            )

    def output(self, node_id: int) -> Path:
        return self.directory / f"{node_id}.txt"

    def kill(self, node_id: int) -> None:
        process = self.running.pop(node_id)
        process.kill()
        process.wait()

    def client(self, **overrides: Any) -> dict[str, Any]:
        return {
            "bootstrap.servers": ",".join(f"127.0.0.1:{self.ports[node_id]['CLIENTS']}" for node_id in self.running),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.certificates.trusted),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "admin",
            "sasl.password": "admin-secret",
            **overrides,
        }

    def logged_in(self, node_id: int, user: str, password: str) -> RawClient:
        """A logged-in connection to this node. A new user may be unknown to the node for a moment."""
        deadline = time.monotonic() + 60
        while True:
            client = RawClient(f"127.0.0.1:{self.ports[node_id]['CLIENTS']}")
            context = ssl.create_default_context(cafile=str(self.certificates.trusted))
            client.socket = context.wrap_socket(client.socket, server_hostname="127.0.0.1")
            client.call(SaslHandshakeRequest(mechanism="SCRAM-SHA-512"), 1)
            exchange = ScramClient("SCRAM-SHA-512", user, password)
            answer = client.call(SaslAuthenticateRequest(auth_bytes=exchange.begin()), 2)
            proof = exchange.evaluate(bytes(answer.auth_bytes))
            answer = client.call(SaslAuthenticateRequest(auth_bytes=proof), 2)
            if not answer.error_code:
                return client
            client.close()
            assert time.monotonic() < deadline

    def create(self, topic: str, replicas: int) -> None:
        admin = AdminClient(self.client())
        deadline = time.monotonic() + 120
        while len(admin.list_topics(timeout=60).brokers) < replicas:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        settings = {"min.insync.replicas": str(replicas - 1)}
        (created,) = admin.create_topics([NewTopic(topic, 3, replicas, config=settings)]).values()
        created.result(60)

    def leader_of(self, topic: str) -> int:
        return int(AdminClient(self.client()).list_topics(topic, timeout=60).topics[topic].partitions[0].leader)

    def produce(self, topic: str, values: list[bytes]) -> None:
        errors: list[Any] = []
        producer = confluent_kafka.Producer(self.client(acks="all"))
        for value in values:
            producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(120) == 0
        assert set(errors) == {None}

    def consume(self, topic: str, values: list[bytes]) -> None:
        consumer = confluent_kafka.Consumer(self.client(**{"group.id": "g", "auto.offset.reset": "earliest"}))
        consumer.subscribe([topic])
        wanted = set(values)
        while wanted:
            message = consumer.poll(120)
            assert message is not None
            assert message.error() is None
            wanted.discard(message.value())
        consumer.close()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[SecuredCluster]:
    cluster = SecuredCluster(tmp_path)
    try:
        yield cluster
    finally:
        for node_id in list(cluster.running):
            cluster.kill(node_id)


def add_user(administrator: RawClient, name: str) -> list[int]:
    salted = hashlib.pbkdf2_hmac("sha512", b"secret", b"salt", 4096)
    added = ScramCredentialUpsertion(name=name, mechanism=2, iterations=4096, salt=b"salt", salted_password=salted)
    return [
        result.error_code
        for result in administrator.call(AlterUserScramCredentialsRequest(upsertions=[added]), 0).results
    ]


def security_codes(client: RawClient) -> list[int]:
    """The errors of all requests that read or change ACLs and credentials; a controller decides the changes."""
    rule = AclCreation(resource_type=2, resource_name="t", principal="User:x", host="*", operation=3, permission_type=3)
    acls = DescribeAclsRequest(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1)
    return [
        client.call(DescribeUserScramCredentialsRequest(users=None), 0).error_code,
        client.call(acls, 3).error_code,
        *(result.error_code for result in client.call(CreateAclsRequest(creations=[rule]), 3).results),
        *add_user(client, "another"),
    ]


def check_that_the_clients_rights_count_on_every_node(cluster: SecuredCluster) -> None:
    """Nodes are super users, and two of three forward changes to the third, which must check the client's rights."""
    with cluster.logged_in(1, "admin", "admin-secret") as administrator:
        assert add_user(administrator, "bob") == [0]
    for node_id in VOTERS:
        with cluster.logged_in(node_id, "bob", "secret") as bob:
            assert security_codes(bob) == [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 4
        with cluster.logged_in(node_id, "admin", "admin-secret") as administrator:
            assert security_codes(administrator) == [0] * 4


def test_a_cluster_with_sasl_ssl_everywhere_forms_fails_over_and_grows(cluster: SecuredCluster) -> None:
    for node_id in VOTERS:
        cluster.format(node_id)
        cluster.start(node_id)
    cluster.create("orders", 3)
    check_that_the_clients_rights_count_on_every_node(cluster)
    before = [f"before-{number}".encode() for number in range(300)]
    cluster.produce("orders", before)
    killed = cluster.leader_of("orders")
    cluster.kill(killed)
    after = [f"after-{number}".encode() for number in range(300)]
    cluster.produce("orders", after)
    cluster.consume("orders", before + after)
    cluster.start(killed)
    # The fourth node formats its directory for the existing cluster.
    cluster.start(4)
    cluster.create("more", 4)
    cluster.produce("more", before)
    cluster.consume("more", before)
    for node_id in (*VOTERS, 4):
        output = cluster.output(node_id).read_text()
        assert "Traceback" not in output
        assert "node-secret" not in output
        assert "cannot log in" not in output
