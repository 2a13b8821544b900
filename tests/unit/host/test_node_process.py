"""What a node says about itself, and whom it lets in."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.broker.context import ListenerInfo
from ottla.host.node_process import NodeProcess, address
from ottla.model.config import BrokerConfig


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
    node = NodeProcess(config, on_ready=lambda _: None)
    try:
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
        # Both follow a change of the settings, of which one hears for both.
        (on_config_changed,) = broker.on_config_changed
        on_config_changed(BrokerConfig({**properties, "max.connections": "2"}))
        assert brokers.has_room("CLIENTS")
    finally:
        for bound, _ in node._bound:
            bound.close()
        node._workers.close()
        node._loop.close()
        asyncio.set_event_loop(None)
