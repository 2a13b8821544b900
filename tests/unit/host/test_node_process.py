"""The addresses, connection limits and socket options of a node."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.context import ListenerInfo
from ottla.host.node_process import NodeProcess, address
from ottla.host.peers import PeerSettings
from ottla.model.config import BrokerConfig


@contextmanager
def unstarted(config: BrokerConfig) -> Iterator[NodeProcess]:
    """A node as it is before it starts, let go of in the end."""
    node = NodeProcess(config, on_ready=lambda _: None)
    try:
        yield node
    finally:
        for bound, _ in node._bound:
            bound.close()
        node._workers.close()
        node._loop.close()
        asyncio.set_event_loop(None)


@pytest.mark.parametrize(
    ("host", "shown"), [("127.0.0.1", "127.0.0.1:9092"), ("kafka.local", "kafka.local:9092"), ("::1", "[::1]:9092")]
)
def test_addresses_are_shown_as_clients_take_them(host: str, shown: str) -> None:
    assert address(host, 9092) == shown


def test_clients_that_use_up_the_connections_keep_no_node_out() -> None:
    names = ("CLIENTS", "BROKERS", "CONTROLLER")
    properties = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for port, name in enumerate(names, start=9092)),
        "listener.security.protocol.map": ",".join(f"{name}:PLAINTEXT" for name in names),
        "inter.broker.listener.name": "BROKERS",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": "1@127.0.0.1:9094",
        "max.connections": "1",
    }
    config = BrokerConfig(properties)
    with unstarted(config) as node:
        for name in names:
            info = ListenerInfo(
                name=name,
                security_protocol="PLAINTEXT",
                host="h",
                port=1,
                advertised_host="h",
                advertised_port=1,
                is_controller=name == "CONTROLLER",
            )
            node._bound.append((socket.socket(), info))
        broker: Any = SimpleNamespace(config=config, on_config_changed=[])
        controllers = node._new_admission(broker, are_controllers=True)
        brokers = node._new_admission(broker, are_controllers=False)
        assert brokers.admit("CLIENTS", "::1")
        assert not brokers.has_room("CLIENTS")
        assert brokers.has_room("BROKERS")
        assert controllers.has_room("CONTROLLER")
        # Both follow a change of the settings through one callback.
        (on_config_changed,) = broker.on_config_changed
        on_config_changed(BrokerConfig({**properties, "max.connections": "2"}))
        assert brokers.has_room("CLIENTS")


def test_what_is_set_for_sockets_reaches_them() -> None:
    config = BrokerConfig.embedded(
        {
            "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            "controller.quorum.voters": "1@127.0.0.1:9093",
            "socket.listen.backlog.size": "7",
            "socket.send.buffer.bytes": "40000",
            "socket.receive.buffer.bytes": "50000",
            "socket.request.max.bytes": "60000",
            "socket.connection.setup.timeout.ms": "1100",
            "socket.connection.setup.timeout.max.ms": "2200",
            "replica.socket.receive.buffer.bytes": "70000",
            "queued.max.requests": "9",
            "queued.max.request.bytes": "90000",
            "connections.max.idle.ms": "3000",
        }
    )
    with unstarted(config) as node:
        assert node._new_peers(None)._settings == PeerSettings(
            setup_timeout_ms=1100, setup_timeout_ms_max=2200, replica_receive_buffer_bytes=70_000
        )
        options = node._options
        assert (options.send_buffer_bytes, options.receive_buffer_bytes, options.backlog_size) == (40_000, 50_000, 7)
        node._bind()
        broker: Any = SimpleNamespace(config=config, on_config_changed=[])
        node._open_listeners(broker, None, are_controllers=False)  # type: ignore[arg-type]
        (listener,) = node._listeners
        assert (listener._limits.request_bytes_max, listener._limits.requests_unanswered_max) == (60_000, 9)
        assert listener._idle_seconds_max == 3.0
        assert node._shared.memory.limit_bytes == 90_000
        listener.stop_accepting()


def test_kafkas_default_buffers_are_left_to_the_kernel() -> None:
    with unstarted(BrokerConfig.embedded()) as node:
        assert (node._options.send_buffer_bytes, node._options.receive_buffer_bytes) == (-1, -1)
        assert node._new_peers(None)._settings.replica_receive_buffer_bytes == -1
