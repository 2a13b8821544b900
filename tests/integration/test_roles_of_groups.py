"""Roles of groups: what a certificate or a token says about its owner gives rights, as ACLs that any tool sees."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AclBindingFilter, AclOperation, AclPermissionType, AdminClient, NewTopic, ResourceType
from confluent_kafka.admin import ResourcePatternType as Pattern

from tests.support.identity_provider import AUDIENCE, ISSUER, IdentityProvider
from tests.support.secured import Certificates, SecuredNode


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider().serving() as running:
        yield running


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def node(
    tmp_path_factory: pytest.TempPathFactory, provider: IdentityProvider, certificates: Certificates
) -> Iterator[SecuredNode]:
    keys = f"{provider.url}/keys"
    settings = {
        **certificates.server_settings(),
        "listener.name.certified.ssl.client.auth": "required",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "ottla.groups.certificate.attribute": "OU",
        "ottla.groups.claim": "groups",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": keys,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "org.apache.kafka.sasl.oauthbearer.allowed.urls": keys,
    }
    listeners = {"CERTIFIED": "SSL", "TOKENS": "SASL_PLAINTEXT"}
    with SecuredNode(tmp_path_factory.mktemp("node"), listeners, settings) as running:
        admin = AdminClient({"bootstrap.servers": running.node.bootstrap})
        for future in admin.create_topics([NewTopic("orders", 1, 1)]).values():
            future.result(30)
        yield running


def ottla(node: SecuredNode, *words: str) -> Any:
    command = [str(Path(sys.executable).parent / "ottla"), *words, "-b", node.node.bootstrap, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def delivery_error(settings: dict[str, Any]) -> Any:
    errors: list[Any] = []
    producer = confluent_kafka.Producer(settings)
    producer.produce("orders", b"x", on_delivery=lambda error, _: errors.append(error))
    producer.flush(30)
    return errors[0]


def with_certificate(node: SecuredNode, certificates: Certificates, *groups: str) -> dict[str, Any]:
    name = "-".join(("member", *groups))
    store = certificates.write(name, certificates.authority.for_client(name, groups=groups))
    return {
        "bootstrap.servers": node.address("CERTIFIED"),
        "security.protocol": "SSL",
        "ssl.ca.location": str(certificates.trusted),
        "ssl.key.location": str(store.with_suffix(".key")),
        "ssl.certificate.location": str(store.with_suffix(".crt")),
    }


def with_token(node: SecuredNode, provider: IdentityProvider, *groups: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": node.address("TOKENS"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "oauth_cb": lambda _config: (provider.token(groups=list(groups)), time.time() + 600),
    }


def test_a_role_of_a_group_holds_for_certificates_and_tokens(
    node: SecuredNode, certificates: Certificates, provider: IdentityProvider
) -> None:
    ottla(node, "roles", "create", "writer", "--producer", "--topic", "orders")
    assert ottla(node, "roles", "bind", "writer", "--group", "staff")["added"] == 3
    assert ottla(node, "roles", "list")[0]["members"] == ["Group:staff"]

    everything = AclBindingFilter(
        ResourceType.TOPIC, "orders", Pattern.LITERAL, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    admin = AdminClient({"bootstrap.servers": node.node.bootstrap})
    seen = admin.describe_acls(everything).result(30)
    assert {acl.principal for acl in seen} == {"Group:staff"}

    assert delivery_error(with_certificate(node, certificates, "staff", "others")) is None
    assert delivery_error(with_token(node, provider, "others", "staff")) is None
    for settings in (with_certificate(node, certificates, "others"), with_token(node, provider, "others")):
        assert delivery_error(settings).name() == "TOPIC_AUTHORIZATION_FAILED"

    assert ottla(node, "roles", "unbind", "writer", "--group", "staff")["removed"] == 3
    assert delivery_error(with_token(node, provider, "staff")).name() == "TOPIC_AUTHORIZATION_FAILED"
