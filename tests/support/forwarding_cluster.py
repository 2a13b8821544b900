"""A separate controller with ACLs, and brokers that allow everything, so every refusal comes from the controller."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from ottla.broker.authorization import AllowAll
from ottla.host.free_ports import free_ports
from ottla.model.config import BrokerConfig
from tests.support.authorization_scenario import SETTINGS, Places
from tests.support.brokers import OttlaFromFile

__all__ = ["AllowEverything", "ForwardingCluster"]

CONTROLLER, BROKERS = 3, (1, 2)


class AllowEverything(AllowAll):
    """An authorizer for `authorizer.class.name` that allows every request."""

    def __init__(self, config: BrokerConfig) -> None:
        del config


class ForwardingCluster:
    """Three nodes. `places` are those of the first broker and of the controller; run it with PYTHONPATH at the root."""

    def __init__(self, directory: Path) -> None:
        controller, for_clients, *ports = free_ports(2 + 2 * len(BROKERS))
        addresses = dict(zip(BROKERS, zip(ports[::2], ports[1::2], strict=True), strict=True))
        shared = {
            **SETTINGS,
            "controller.quorum.voters": f"{CONTROLLER}@127.0.0.1:{controller}",
            "principal.builder.class": "tests.support.listener_principals.by_listener",
            "delegation.token.secret.key": "a-secret-of-all-nodes",
        }
        of_controller = {
            **shared,
            "process.roles": "controller",
            "listeners": f"CONTROLLER://127.0.0.1:{controller},CONTROLLERFORCLIENTS://127.0.0.1:{for_clients}",
        }
        del of_controller["inter.broker.listener.name"]
        self._nodes = [OttlaFromFile(directory / "controller", of_controller, node_id=CONTROLLER)]
        for node_id, (nodes, clients) in addresses.items():
            of_broker = {
                **shared,
                "process.roles": "broker",
                "listeners": f"NODES://127.0.0.1:{nodes},CLIENTS://0.0.0.0:{clients}",
                "advertised.listeners": f"NODES://127.0.0.1:{nodes},CLIENTS://127.0.0.1:{clients}",
                "authorizer.class.name": f"{__name__}.{AllowEverything.__name__}",
            }
            self._nodes.append(OttlaFromFile(directory / f"broker-{node_id}", of_broker, node_id=node_id))
        nodes, clients = addresses[BROKERS[0]]
        self.places = Places(*(f"127.0.0.1:{port}" for port in (nodes, clients, controller, for_clients)))

    def __enter__(self) -> Self:
        try:
            for node in self._nodes:
                node.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in reversed(self._nodes):
            node.stop()
