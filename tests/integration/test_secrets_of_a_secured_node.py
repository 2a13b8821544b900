"""A node with every kind of secret: passwords of stores, keys in its settings, the key of tokens, secrets of clients.

All readable output of the node is searched for them: DescribeConfigs in every version, with synonyms and
documentation, the log at DEBUG, the audit, metrics, dumps of the metadata and its snapshots, and errors.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509 import load_pem_x509_certificate

from ottla.wire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from ottla.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from ottla.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest
from tests.support.brokers import free_ports
from tests.support.raw_client import RawClient
from tests.support.secured import Certificates, SecuredNode

MARK = "planted-secret"
BROKER, SET = 4, 0
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
UNSECURED = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)


class Planted(SecuredNode):
    def __init__(self, directory: Path) -> None:
        certificates = Certificates(directory / "certificates")
        self.certificates = certificates
        key_file = certificates.node.with_suffix(".key")
        self.key = serialization.load_pem_private_key(key_file.read_bytes(), None)
        self.chain = certificates.node.with_suffix(".crt").read_text()
        (self.metrics_port,) = free_ports(1)
        protocols = {"STORES": "SSL", "KEYS": "SSL", "INLINE": "SSL", "USERS": "SASL_PLAINTEXT", "BEARERS": "SASL_SSL"}
        settings = {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:alice",
            "delegation.token.secret.key": f"{MARK}-of-tokens",
            "listener.name.stores.ssl.keystore.type": "PKCS12",
            "listener.name.stores.ssl.keystore.location": str(self.store("first", f"{MARK}-of-store")),
            "listener.name.stores.ssl.keystore.password": f"{MARK}-of-store",
            "listener.name.keys.ssl.keystore.type": "PEM",
            "listener.name.keys.ssl.keystore.location": str(self.encrypted_pem()),
            "listener.name.keys.ssl.key.password": f"{MARK}-of-key",
            "listener.name.inline.ssl.keystore.type": "PEM",
            "listener.name.inline.ssl.keystore.key": key_file.read_text().replace("\n", "\\n"),
            "listener.name.inline.ssl.keystore.certificate.chain": self.chain.replace("\n", "\\n"),
            **certificates.server_settings("listener.name.bearers."),
            "listener.name.users.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.users.plain.sasl.jaas.config": f'{PLAIN} required user_alice="{MARK}-of-alice";',
            "listener.name.bearers.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.bearers.oauthbearer.sasl.server.callback.handler.class": UNSECURED,
            "listener.name.bearers.oauthbearer.sasl.jaas.config": (
                f'{BEARER} required clientId="node" clientSecret="{MARK}-of-bearer" '
                f'unsecuredLoginStringClaim_sub="node";'
            ),
            "ottla.metrics.listener": f"127.0.0.1:{self.metrics_port}",
            "ottla.audit.authorization": "all",
            "ottla.audit.authentication": "all",
            "ottla.audit.dir": str(directory / "audit"),
            "connection.failed.authentication.delay.ms": "0",
        }
        self.directory = directory
        # The password of the delegation token.
        self.hmac = b""
        super().__init__(directory / "node", protocols, settings)

    def store(self, name: str, password: str) -> Path:
        path = self.certificates.directory / f"{name}.p12"
        encryption = serialization.BestAvailableEncryption(password.encode())
        key: Any = self.key
        certificate = load_pem_x509_certificate(self.chain.encode())
        path.write_bytes(pkcs12.serialize_key_and_certificates(b"node", key, certificate, None, encryption))
        return path

    def encrypted_pem(self) -> Path:
        path = self.certificates.directory / "encrypted.pem"
        encryption = serialization.BestAvailableEncryption(f"{MARK}-of-key".encode())
        text = self.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        path.write_bytes(text + self.chain.encode())
        return path

    @property
    def lines_of_key(self) -> list[str]:
        """The secret lines of the private key, without its header and footer."""
        text = self.certificates.node.with_suffix(".key").read_text()
        return [line for line in text.splitlines() if not line.startswith("-----")]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planted]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTTLA_LOG_LEVEL", "DEBUG")
        node = Planted(tmp_path_factory.mktemp("planted"))
        try:
            yield node
        finally:
            node.node.stop()


def alter(client: RawClient, name: str, **settings: str) -> list[tuple[int, str | None]]:
    configs = [
        AlterableConfig(name=key.replace("__", "."), config_operation=SET, value=value)
        for key, value in settings.items()
    ]
    resource = AlterConfigsResource(resource_type=BROKER, resource_name=name, configs=configs)
    answer = client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    return [(row.error_code, row.error_message) for row in answer.responses]


def described(client: RawClient) -> Iterator[str]:
    """Every configuration of the broker, as every version of the request shows it."""
    for version in range(1, 5):
        for name in ("1", ""):
            resource = DescribeConfigsResource(resource_type=BROKER, resource_name=name, configuration_keys=None)
            request = DescribeConfigsRequest(
                resources=[resource], include_synonyms=True, include_documentation=version >= 3
            )
            yield repr(client.call(request, version))


def changed_store(planted: Planted, client: RawClient) -> str:
    """Sets a key store with another password while the node runs, and a wrong password; returns the errors."""
    store = planted.store("second", f"{MARK}-dynamic")
    prefix = "listener__name__stores__ssl__keystore__"
    right = {f"{prefix}location": str(store), f"{prefix}password": f"{MARK}-dynamic"}
    assert alter(client, "1", **right) == [(0, None)]
    wrong = alter(client, "1", **{f"{prefix}password": f"{MARK}-wrong"})
    assert wrong[0][0] != 0
    assert wrong[0][1]
    return repr(wrong)


def logins(planted: Planted) -> str:
    """Logs in with a right and a wrong password, and creates a token; returns the answers."""
    answers = []
    for password in (f"{MARK}-of-alice", f"{MARK}-guess"):
        with RawClient(planted.address("USERS")) as client:
            client.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
            answer = client.call(SaslAuthenticateRequest(auth_bytes=f"\0alice\0{password}".encode()), 2)
            answers.append(repr((answer.error_code, answer.error_message)))
            if answer.error_code == 0:
                token = client.call(CreateDelegationTokenRequest(), 3)
                assert token.error_code == 0
                planted.hmac = bytes(token.hmac)
    return " ".join(answers)


def add_scram_user(client: RawClient) -> list[str]:
    """Adds a SCRAM credential and returns its secret forms: the bytes that verify a login."""
    salted = hashlib.pbkdf2_hmac("sha256", f"{MARK}-of-carol".encode(), b"salt-of-carol", 4096)
    added = ScramCredentialUpsertion(
        name="carol", mechanism=1, iterations=4096, salt=b"salt-of-carol", salted_password=salted
    )
    answer = client.call(AlterUserScramCredentialsRequest(upsertions=[added]), 0)
    assert [row.error_code for row in answer.results] == [0]
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    stored_key = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    return [text for secret in (salted, server_key, stored_key) for text in forms(secret)]


def forms(secret: bytes) -> list[str]:
    """The notations of bytes in logs and dumps."""
    return [base64.b64encode(secret).decode(), secret.hex(), repr(secret)[2:40]]


def ottla(*words: str) -> str:
    completed = subprocess.run(
        [sys.executable, "-m", "ottla.cli.main", *words], capture_output=True, text=True, timeout=120
    )
    return f"$ ottla {words[0]} ended with {completed.returncode}\n{completed.stdout}{completed.stderr}"


def test_no_secret_is_shown(planted: Planted) -> None:
    planted.node.start()
    outputs: dict[str, str] = {}
    with RawClient(planted.node.bootstrap) as client:
        outputs["errors"] = changed_store(planted, client)
        outputs["logins"] = logins(planted)
        outputs["describe configs"] = "".join(described(client))
        secrets = [MARK, *planted.lines_of_key, *add_scram_user(client), *forms(planted.hmac)]
    assert "ssl.keystore.password" in outputs["describe configs"]
    properties = planted.node.directory / "server.properties"
    outputs["doctor"] = ottla("doctor", "-b", planted.node.bootstrap) + ottla("doctor", "--config", str(properties))
    outputs["describe"] = ottla("configs", "-b", planted.node.bootstrap, "describe", "--broker", "1", "--all", "--json")
    with urllib.request.urlopen(f"http://127.0.0.1:{planted.metrics_port}/metrics", timeout=60) as page:
        outputs["metrics"] = page.read().decode()
    planted.node.stop()
    outputs["log"] = planted.output
    outputs["audit"] = "".join(path.read_text() for path in (planted.directory / "audit").iterdir())
    for file in planted.node.directory.rglob("__cluster_metadata-0/*"):
        if file.suffix in (".log", ".checkpoint"):
            outputs[f"dump of {file.name}"] = ottla("dump-log", "--cluster-metadata-decoder", "--files", str(file))
    leaks = {(source, secret[:24]) for source, text in outputs.items() for secret in secrets if secret in text}
    assert not leaks
    dumps = "".join(text for source, text in outputs.items() if source.startswith("dump of"))
    assert "CONFIG_RECORD" in dumps
    assert "USER_SCRAM_CREDENTIAL_RECORD" in dumps
