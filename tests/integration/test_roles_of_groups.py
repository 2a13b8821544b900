"""Roles of groups: the groups in a certificate or a token give rights, through ACLs that any tool lists."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AclBindingFilter, AclOperation, AclPermissionType, AdminClient, NewTopic
from confluent_kafka.admin import ResourcePatternType as Pattern
from confluent_kafka.admin import ResourceType as ConfluentResourceType

from ottla.client.admin import AdminClient as OttlaAdmin
from ottla.client.admin.acls import Acl
from ottla.client.login import Login, PasswordLogin
from ottla.client.oauth.sources import from_callable
from ottla.client.oauth.tokens import OAuthLogin
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.model.access import Operation, Permission, ResourceType
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
        "sasl.enabled.mechanisms": "OAUTHBEARER,SCRAM-SHA-256",
        "delegation.token.secret.key": "a-secret-of-all-nodes",
        "sasl.oauthbearer.jwks.endpoint.url": keys,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "org.apache.kafka.sasl.oauthbearer.allowed.urls": keys,
    }
    listeners = {"CERTIFIED": "SSL", "TOKENS": "SASL_PLAINTEXT"}
    with SecuredNode(tmp_path_factory.mktemp("node"), listeners, settings) as running:
        yield running


@pytest.fixture
def topic(node: SecuredNode) -> str:
    """A new topic without ACLs."""
    name = f"orders-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": node.node.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    return name


def ottla(node: SecuredNode, *words: str) -> Any:
    command = [str(Path(sys.executable).parent / "ottla"), *words, "-b", node.node.bootstrap, "--json"]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert completed.returncode == 0, completed.stderr
    return json.loads(completed.stdout)


def delivery_error(topic: str, settings: dict[str, Any]) -> Any:
    errors: list[Any] = []
    producer = confluent_kafka.Producer(settings)
    producer.produce(topic, b"x", on_delivery=lambda error, _: errors.append(error))
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
    node: SecuredNode, certificates: Certificates, provider: IdentityProvider, topic: str
) -> None:
    ottla(node, "roles", "create", "writer", "--producer", "--topic", topic)
    assert ottla(node, "roles", "bind", "writer", "--group", "staff")["added"] == 3
    assert ottla(node, "roles", "list")[0]["members"] == ["Group:staff"]

    everything = AclBindingFilter(
        ConfluentResourceType.TOPIC, topic, Pattern.LITERAL, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    admin = AdminClient({"bootstrap.servers": node.node.bootstrap})
    acls = admin.describe_acls(everything).result(30)
    assert {acl.principal for acl in acls} == {"Group:staff"}

    assert delivery_error(topic, with_certificate(node, certificates, "staff", "others")) is None
    assert delivery_error(topic, with_token(node, provider, "others", "staff")) is None
    for settings in (with_certificate(node, certificates, "others"), with_token(node, provider, "others")):
        assert delivery_error(topic, settings).name() == "TOPIC_AUTHORIZATION_FAILED"

    assert ottla(node, "roles", "unbind", "writer", "--group", "staff")["removed"] == 3
    assert delivery_error(topic, with_token(node, provider, "staff")).name() == "TOPIC_AUTHORIZATION_FAILED"


def visible_topics(node: SecuredNode, login: Login) -> list[str]:
    async def names() -> list[str]:
        async with OttlaAdmin(client_settings(node, login)) as admin:
            return await admin.topics.names()

    return asyncio.run(names())


def delegation_token(node: SecuredNode, login: Login, owner: str | None = None) -> PasswordLogin:
    """The login with a new delegation token."""

    async def create() -> PasswordLogin:
        async with OttlaAdmin(client_settings(node, login)) as admin:
            token = await admin.tokens.create(owner=owner)
            return PasswordLogin("SCRAM-SHA-256", token.token_id, token.password, is_token=True)

    return asyncio.run(create())


def client_settings(node: SecuredNode, login: Login) -> ClientSettings:
    bootstrap = parse_bootstrap(node.address("TOKENS"))
    return ClientSettings(bootstrap_servers=bootstrap, login=login, api_timeout_ms=30_000)


def allow_and_deny(node: SecuredNode, topic: str) -> None:
    """Travellers may describe the topic unless they are banned; the crew may describe it, too."""
    rules = [
        Acl(ResourceType.TOPIC, topic, "User:traveller", Operation.DESCRIBE),
        Acl(ResourceType.TOPIC, topic, "Group:banned", Operation.ALL, Permission.DENY),
        Acl(ResourceType.TOPIC, topic, "Group:crew", Operation.DESCRIBE),
        Acl(ResourceType.USER, "User:guest", "User:traveller", Operation.CREATE_TOKENS),
    ]

    async def create() -> None:
        bootstrap = parse_bootstrap(node.node.bootstrap)
        async with OttlaAdmin(ClientSettings(bootstrap_servers=bootstrap, api_timeout_ms=30_000)) as admin:
            await admin.acls.create(rules)

    asyncio.run(create())


@pytest.mark.parametrize("owner", [None, "User:traveller"])
def test_a_delegation_token_has_the_groups_of_its_owner(
    node: SecuredNode, provider: IdentityProvider, topic: str, owner: str | None
) -> None:
    allow_and_deny(node, topic)

    def member(user: str, *groups: str) -> OAuthLogin:
        return OAuthLogin(from_callable(lambda: provider.token(user, groups=list(groups))))

    traveller = member("traveller")
    assert topic in visible_topics(node, traveller)
    assert topic in visible_topics(node, delegation_token(node, traveller, owner))
    banned = member("traveller", "others", "banned")
    assert topic not in visible_topics(node, banned)
    assert topic not in visible_topics(node, delegation_token(node, banned, owner))
    crew = member("pilot", "crew")
    assert topic in visible_topics(node, crew)
    assert topic in visible_topics(node, delegation_token(node, crew))


def test_a_delegation_token_for_another_owner_is_in_no_group(
    node: SecuredNode, provider: IdentityProvider, topic: str
) -> None:
    allow_and_deny(node, topic)
    login = OAuthLogin(from_callable(lambda: provider.token("traveller", groups=["crew"])))
    assert topic in visible_topics(node, login)
    assert topic not in visible_topics(node, delegation_token(node, login, "User:guest"))
