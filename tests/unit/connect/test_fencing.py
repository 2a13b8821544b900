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
        with pytest.raises(ClientError):
            asyncio.run(fence(held.getsockname()[1]))
