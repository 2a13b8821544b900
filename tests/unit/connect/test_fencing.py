"""Ending the transactions of other workers under a transactional id, when those workers cannot be asked."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.connect.work.spark_engine import SparkEngine
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.init_producer_id import InitProducerIdResponse


def test_who_asks_learns_that_it_was_not_done() -> None:
    nothing: Any = None

    async def fence(port: int) -> None:
        cluster = Cluster(ClientSettings(bootstrap_servers=parse_bootstrap(f"127.0.0.1:{port}"), api_timeout_ms=200))
        try:
            await SparkEngine(nothing, nothing, nothing, cluster).fence(["group-connector-0"])
        finally:
            await cluster.close()

    # No process listens there, and no other process can get the port.
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        with pytest.raises((ClientError, KafkaError)):
            asyncio.run(fence(held.getsockname()[1]))


class Coordinators(Cluster):
    """Coordinators that answer when all of these ids have been asked for. One of them has an error."""

    def __init__(self, ids: list[str], refused: str) -> None:
        super().__init__(ClientSettings(bootstrap_servers=parse_bootstrap("127.0.0.1:1")))
        self.asked = asyncio.Barrier(len(ids))
        self.refused = refused

    async def ask_coordinator(self, _kind: object, key: str, *_: Any, **__: Any) -> Any:
        await self.asked.wait()
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED if key == self.refused else ErrorCode.NONE
        return InitProducerIdResponse(producer_id=5, producer_epoch=0, error_code=code)


def test_the_tasks_of_a_connector_are_fenced_at_the_same_time() -> None:
    """One coordinator that does not answer costs one time-out, not one for each task."""
    nothing: Any = None
    ids = ["group-connector-0", "group-connector-1", "group-connector-2"]

    async def fence() -> None:
        async with asyncio.timeout(60):
            await SparkEngine(nothing, nothing, nothing, Coordinators(ids, refused=ids[1])).fence(ids)

    with pytest.raises(KafkaError, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        asyncio.run(fence())
