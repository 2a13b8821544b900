"""AdminClient calls for many items: every item has its own result or error."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from ottla.client.admin import AdminClient
from ottla.client.admin.acls import Acl, AclSelection
from ottla.client.admin.credentials import CredentialChange, ScramMechanism
from ottla.client.admin.transactions import FencedProducer
from ottla.client.blocking import BlockingProducer
from ottla.model.access import Operation, PatternType, ResourceType
from ottla.model.errors import ErrorCode, KafkaError
from tests.support.brokers import OttlaFromFile

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with OttlaFromFile(tmp_path_factory.mktemp("node"), SETTINGS) as node:
        yield node.bootstrap


def code_of(error: object) -> ErrorCode:
    assert isinstance(error, KafkaError)
    return error.code


def test_rules(bootstrap: str) -> None:
    good = Acl(ResourceType.TOPIC, "orders", "User:alice", Operation.READ)
    # A rule needs a pattern; MATCH is for filters.
    bad = good._replace(pattern_type=PatternType.MATCH)

    async def scenario() -> None:
        async with AdminClient({"bootstrap.servers": bootstrap}) as admin:
            created = await admin.acls.create_each([bad, good])
            assert created[good] is None
            code_of(created[bad])
            assert await admin.acls.describe() == [good]
            with pytest.raises(KafkaError):
                await admin.acls.create([bad])
            orders = AclSelection(ResourceType.TOPIC, "orders")
            missing = AclSelection(ResourceType.GROUP, "nothing")
            assert await admin.acls.delete_each([missing, orders]) == [{}, {good: None}]
            assert await admin.acls.describe() == []
            assert await admin.acls.delete([orders]) == []

    asyncio.run(scenario())


def test_credentials(bootstrap: str) -> None:
    async def scenario() -> None:
        async with AdminClient({"bootstrap.servers": bootstrap}) as admin:
            changes = [
                CredentialChange("alice", SHA_256, "secret"),
                CredentialChange("bob", SHA_256),
                CredentialChange("carol", SHA_256, "secret"),
                CredentialChange("carol", SHA_512, "secret"),
            ]
            altered = await admin.credentials.alter(changes)
            assert altered["alice"] is None
            assert code_of(altered["bob"]) == ErrorCode.RESOURCE_NOT_FOUND
            assert code_of(altered["carol"]) == ErrorCode.DUPLICATE_RESOURCE
            await admin.credentials.set("alice", SHA_512, "secret", iterations=5000)
            described = await admin.credentials.describe_each(["alice", "bob"])
            assert described["alice"] == {SHA_256: 4096, SHA_512: 5000}
            assert code_of(described["bob"]) == ErrorCode.RESOURCE_NOT_FOUND
            assert await admin.credentials.describe(["alice", "bob"]) == {"alice": {SHA_256: 4096, SHA_512: 5000}}
            await admin.credentials.remove("alice", SHA_512)
            assert await admin.credentials.describe() == {"alice": {SHA_256: 4096}}

    asyncio.run(scenario())


def test_fencing(bootstrap: str) -> None:
    config = {"bootstrap.servers": bootstrap, "transactional.id": "payments"}

    async def fence() -> dict[str, FencedProducer | KafkaError]:
        async with AdminClient({"bootstrap.servers": bootstrap}) as admin:
            return await admin.transactions.fence(["payments", "payments", ""])

    with BlockingProducer(config) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("t", b"1")
        producer.flush()
        fenced = asyncio.run(fence())
        assert set(fenced) == {"payments", ""}
        assert isinstance(fenced["payments"], FencedProducer)
        code_of(fenced[""])
        with pytest.raises(KafkaError) as raised:
            producer.commit_transaction()
        assert raised.value.code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH)
