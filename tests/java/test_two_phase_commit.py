"""Two-phase commits of our producer (KIP-939) with Apache Kafka, as far as 4.3 has them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from ottla.client.admin.offsets import EARLIEST
from ottla.client.consumer import Consumer
from ottla.client.errors import ClientError
from ottla.client.producer import PreparedTransaction, Producer
from tests.java.conftest import require_java
from tests.support.brokers import QuickKafka


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    require_java()
    settings = {"unstable.api.versions.enable": "true", "transaction.two.phase.commit.enable": "true"}
    settings |= {"transaction.state.log.num.partitions": "1"}
    with QuickKafka(tmp_path_factory.mktemp("kafka"), settings) as broker:
        yield broker.bootstrap


async def committed(where: dict[str, Any], topic: str) -> list[bytes]:
    async with Consumer({**where, "isolation.level": "read_committed"}) as consumer:
        await consumer.assign(await consumer.partitions(topic))
        await consumer.seek_to(EARLIEST)
        return [record.value for record in await consumer.poll(2_000)]


def test_a_prepared_transaction_is_completed_by_what_was_decided(kafka: str) -> None:
    async def scenario() -> None:
        where = {"bootstrap.servers": kafka}
        topic = f"t-{uuid.uuid4().hex[:8]}"
        config = {**where, "transactional.id": topic, "transaction.two.phase.commit.enable": True}
        async with Producer(config) as producer:
            await producer.init_transactions()
            producer.begin_transaction()
            await producer.send(topic, b"committed")
            prepared = await producer.prepare_transaction()
            assert PreparedTransaction.parse(str(prepared)) == prepared
            with pytest.raises(ClientError, match="between begin_transaction"):
                await producer.send(topic, b"late")
            await producer.complete_transaction(prepared)
            producer.begin_transaction()
            await producer.send(topic, b"aborted")
            assert await producer.prepare_transaction() != prepared
            # The database has no record of this transaction.
            await producer.complete_transaction(prepared)
        assert await committed(where, topic) == [b"committed"]

    async def limited() -> None:
        async with asyncio.timeout(60):
            await scenario()

    asyncio.run(limited())


def test_keeping_a_prepared_transaction(kafka: str) -> None:
    async def scenario() -> None:
        topic = f"t-{uuid.uuid4().hex[:8]}"
        config = {"bootstrap.servers": kafka, "transactional.id": topic, "transaction.two.phase.commit.enable": True}
        async with Producer(config) as producer:
            with pytest.raises(ClientError, match="cannot keep prepared transactions"):
                await producer.init_transactions(keep_prepared=True)

    asyncio.run(scenario())
