"""Connection limits of a running node: an administrator sets them, and they apply to the next connection."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from ottla.testing import Cluster, cluster
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.metadata import MetadataRequest
from tests.integration.cluster_calls import wait_until
from tests.support.raw_client import ConnectionClosed, RawClient

BROKER_RESOURCE = 4
SET, DELETE = 0, 1


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with cluster() as started:
        yield started


@pytest.fixture
def admin(running: Cluster) -> Iterator[RawClient]:
    with RawClient(running.bootstrap) as connected:
        yield connected


@contextlib.contextmanager
def limited(admin: RawClient, key: str, value: str) -> Iterator[None]:
    alter(admin, AlterableConfig(name=key, config_operation=SET, value=value))
    try:
        yield
    finally:
        alter(admin, AlterableConfig(name=key, config_operation=DELETE, value=None))


def alter(admin: RawClient, change: AlterableConfig) -> None:
    everywhere = AlterConfigsResource(resource_type=BROKER_RESOURCE, resource_name="", configs=[change])
    answer = admin.call(IncrementalAlterConfigsRequest(resources=[everywhere]), 1).responses[0]
    assert answer.error_code == 0, answer.error_message


def is_served(client: RawClient) -> bool:
    try:
        client.call(MetadataRequest(topics=[]), 12)
    except (ConnectionClosed, ConnectionError):
        return False
    return True


def connected(bootstrap: str) -> RawClient:
    """A client that is served. This may take a while, because connections closed a moment ago may still count."""
    clients: list[RawClient] = []

    def is_connected() -> bool:
        clients.append(RawClient(bootstrap))
        if not is_served(clients[-1]):
            clients.pop().close()
        return bool(clients)

    wait_until(is_connected, "a connection is served")
    return clients[0]


@pytest.mark.parametrize(
    ("key", "value"), [("max.connections.per.ip", "2"), ("max.connections.per.ip.overrides", "127.0.0.1:2")]
)
def test_an_address_has_so_many_connections_at_most(running: Cluster, admin: RawClient, key: str, value: str) -> None:
    assert is_served(admin)
    with limited(admin, key, value), connected(running.bootstrap) as second:
        with RawClient(running.bootstrap) as third:
            assert not is_served(third)
        assert is_served(second)
    with RawClient(running.bootstrap) as other_client:
        assert is_served(other_client)


def test_a_connection_beyond_the_limit_of_the_node_waits_until_another_ends(running: Cluster, admin: RawClient) -> None:
    with (
        limited(admin, "max.connections", "2"),
        connected(running.bootstrap) as second,
        RawClient(running.bootstrap) as third,
    ):
        third.send(MetadataRequest(topics=[]), 12)
        for _ in range(20):
            assert is_served(second)
        third.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            third.socket.recv(1)
        third.socket.settimeout(60)
        second.close()
        third.receive()
