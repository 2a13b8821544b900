"""Clusters whose nodes log in to each other with bearer tokens or Kerberos: they form and fail over."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.cli.commands.storage import storage
from ottla.host.free_ports import free_ports
from ottla.testing.clusters import node_environment
from tests.support.identity_provider import AUDIENCE, CLIENT, ISSUER, SECRET, IdentityProvider
from tests.support.kerberos import REALM, Realm, missing_reason
from tests.support.secured import Certificates

CLUSTER_ID = "T3R0bGFUZXN0Q2x1c3Rlcg"
VOTERS = (1, 2, 3)
LISTENERS = ("BROKERS", "CONTROLLER")
OAUTH = "org.apache.kafka.common.security.oauthbearer"
KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
# The lifetime of tokens: short enough for every connection to log in again while the test runs.
TOKEN_SECONDS = 8.0


class Cluster:
    """Three combined nodes with SASL_SSL on every listener."""

    def __init__(self, directory: Path, settings: dict[str, str], client: dict[str, Any]) -> None:
        self._directory = directory
        self._certificates = Certificates(directory / "certificates")
        self._ports = {node_id: dict(zip(LISTENERS, free_ports(2), strict=True)) for node_id in VOTERS}
        self._settings = settings
        self._client = client
        self.running: dict[int, subprocess.Popen[bytes]] = {}

    @contextmanager
    def started(self) -> Iterator[Cluster]:
        try:
            for node_id in VOTERS:
                arguments = ["format", "-t", CLUSTER_ID, "-c", str(self._write(node_id))]
                assert storage(arguments, standalone_mode=False) == 0
                self.start(node_id)
            yield self
        finally:
            for node_id in list(self.running):
                self.kill(node_id)

    def _write(self, node_id: int) -> Path:
        settings = {
            "process.roles": "broker,controller",
            "node.id": str(node_id),
            "listeners": ",".join(f"{name}://localhost:{self._ports[node_id][name]}" for name in LISTENERS),
            "listener.security.protocol.map": ",".join(f"{name}:SASL_SSL" for name in LISTENERS),
            "inter.broker.listener.name": "BROKERS",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": ",".join(f"{v}@localhost:{self._ports[v]['CONTROLLER']}" for v in VOTERS),
            "log.dirs": str(self._directory / str(node_id)),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "offsets.topic.replication.factor": "3",
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "500",
            **self._certificates.server_settings(),
            **self._settings,
        }
        path = self._directory / f"{node_id}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return path

    def start(self, node_id: int) -> None:
        with (self._directory / f"{node_id}.txt").open("ab") as output:
            self.running[node_id] = subprocess.Popen(
                [sys.executable, "-m", "ottla.cli.main", "node", "--config", str(self._write(node_id))],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=node_environment(),
            )

    def kill(self, node_id: int) -> None:
        process = self.running.pop(node_id)
        process.kill()
        process.wait()

    def output(self) -> str:
        return "".join((self._directory / f"{node_id}.txt").read_text() for node_id in VOTERS)

    def client(self, **overrides: Any) -> dict[str, Any]:
        return {
            "bootstrap.servers": ",".join(f"localhost:{self._ports[node_id]['BROKERS']}" for node_id in self.running),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self._certificates.trusted),
            **self._client,
            **overrides,
        }


def check_that_it_forms_and_fails_over(cluster: Cluster) -> None:
    admin = AdminClient(cluster.client())
    deadline = time.monotonic() + 120
    while len(admin.list_topics(timeout=60).brokers) < len(VOTERS):
        assert time.monotonic() < deadline, cluster.output()
        time.sleep(0.05)
    topic = NewTopic("orders", 3, 3, config={"min.insync.replicas": "2"})
    admin.create_topics([topic])["orders"].result(60)
    produce(cluster, [b"before-%d" % number for number in range(200)])
    leader = admin.list_topics("orders", timeout=60).topics["orders"].partitions[0].leader
    cluster.kill(leader)
    produce(cluster, [b"after-%d" % number for number in range(200)])
    cluster.start(leader)
    deadline = time.monotonic() + 120
    while any(len(partition.isrs) < 3 for partition in partitions(cluster)):
        assert time.monotonic() < deadline, cluster.output()
        time.sleep(0.05)


def partitions(cluster: Cluster) -> list[Any]:
    partitions_by_index = AdminClient(cluster.client()).list_topics("orders", timeout=60).topics["orders"].partitions
    return list(partitions_by_index.values())


def produce(cluster: Cluster, values: list[bytes]) -> None:
    errors: list[Any] = []
    producer = confluent_kafka.Producer(cluster.client(acks="all"))
    for value in values:
        producer.produce("orders", value, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(120) == 0
    assert set(errors) == {None}


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider("ES256").serving() as running:
        running.lifetime_seconds = TOKEN_SECONDS
        yield running


def test_nodes_with_tokens_of_an_endpoint_and_of_a_file(tmp_path: Path, provider: IdentityProvider) -> None:
    """Brokers use the token endpoint; controllers read a file whose token does not expire during the test."""
    keys, endpoint, file = f"{provider.url}/keys", f"{provider.url}/token", tmp_path / "token"
    file.write_text(provider.token("controller", exp=time.time() + 3600))
    settings = {
        "super.users": "User:alice;User:controller",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "sasl.mechanism.controller.protocol": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": keys,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "org.apache.kafka.sasl.oauthbearer.allowed.urls": f"{keys},{endpoint}",
        "org.apache.kafka.sasl.oauthbearer.allowed.files": str(file),
        "listener.name.brokers.oauthbearer.sasl.oauthbearer.token.endpoint.url": endpoint,
        "listener.name.brokers.oauthbearer.sasl.login.callback.handler.class": (
            f"{OAUTH}.OAuthBearerLoginCallbackHandler"
        ),
        "listener.name.brokers.oauthbearer.sasl.jaas.config": (
            f'{OAUTH}.OAuthBearerLoginModule required clientId="{CLIENT}" clientSecret="{SECRET}";'
        ),
        "listener.name.controller.oauthbearer.sasl.oauthbearer.token.endpoint.url": file.as_uri(),
    }
    client = {
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _config: (provider.token(), time.time() + TOKEN_SECONDS),
    }
    with Cluster(tmp_path, settings, client).started() as cluster:
        check_that_it_forms_and_fails_over(cluster)
        # The first token of every broker, and a second token after a few seconds.
        deadline = time.monotonic() + 60
        while provider.asked.count("/token") < 2 * len(VOTERS):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        output = cluster.output()
    assert "Traceback" not in output
    assert SECRET not in output
    assert "cannot log in" not in output


def test_nodes_with_unsecured_tokens(tmp_path: Path) -> None:
    login = f"{OAUTH}.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="
    validator = f"{OAUTH}.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
    settings = {
        "super.users": "User:node;User:admin",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "sasl.mechanism.controller.protocol": "OAUTHBEARER",
        **{
            f"listener.name.{name}.oauthbearer.{key}": value
            for name in ("brokers", "controller")
            for key, value in (
                ("sasl.jaas.config", f'{login}"node";'),
                ("sasl.server.callback.handler.class", validator),
            )
        },
    }
    client = {
        "sasl.mechanism": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": True,
        "sasl.oauthbearer.config": "principal=admin",
    }
    with Cluster(tmp_path, settings, client).started() as cluster:
        check_that_it_forms_and_fails_over(cluster)
        assert "Traceback" not in cluster.output()


@pytest.fixture
def realm(tmp_path: Path) -> Iterator[Realm]:
    if reason := missing_reason():
        pytest.skip(f"Kerberos: {reason}")
    directory = tmp_path / "realm"
    directory.mkdir()
    with Realm(directory) as running, pytest.MonkeyPatch.context() as environment:
        running.add(f"kafka/localhost@{REALM}")
        for name, value in running.environment.items():
            environment.setenv(name, value)
        yield running


def test_nodes_with_tickets_of_kerberos(tmp_path: Path, realm: Realm) -> None:
    login = (
        f'{KERBEROS} required useKeyTab=true storeKey=true keyTab="{realm.keytab}" principal="kafka/localhost@{REALM}";'
    )
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule"
    settings = {
        "super.users": "User:kafka;User:admin",
        "listener.name.brokers.sasl.enabled.mechanisms": "PLAIN,GSSAPI",
        "listener.name.brokers.plain.sasl.jaas.config": f'{plain} required user_admin="admin-secret";',
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        "sasl.mechanism.controller.protocol": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "listener.name.brokers.gssapi.sasl.jaas.config": login,
        "listener.name.controller.gssapi.sasl.jaas.config": login,
    }
    client = {"sasl.mechanism": "PLAIN", "sasl.username": "admin", "sasl.password": "admin-secret"}
    with Cluster(tmp_path, settings, client).started() as cluster:
        check_that_it_forms_and_fails_over(cluster)
        output = cluster.output()
    assert "Traceback" not in output
    assert "cannot log in" not in output
