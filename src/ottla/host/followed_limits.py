"""How many connections the configuration lets in, followed while it changes.

`max.connections.per.ip.overrides` may name hosts. Their addresses are asked for on a worker: a name server that does
not answer must hold up nobody, and a name that none could know (it may be in the metadata of the whole cluster by now)
must not keep a node from starting.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.host.admission import UNLIMITED, Admission, AdmissionLimits
from ottla.model.addresses import address_bytes

if TYPE_CHECKING:
    from ottla.model.config import BrokerConfig
    from ottla.model.deferred import Deferred
    from ottla.model.ports import Workers

__all__ = ["FollowedLimits"]

logger = logging.getLogger("ottla.host.followed_limits")


class FollowedLimits:
    """`limits` are those of the newest configuration; those of hosts with names come a moment later."""

    def __init__(self, config: BrokerConfig, workers: Workers) -> None:
        self._workers = workers
        self._admissions: list[Admission] = []
        self.limits = _limits_of(config)
        self._look_up_hosts()

    def tell(self, admission: Admission) -> None:
        """From now on it is told when they change."""
        self._admissions.append(admission)

    def follow(self, config: BrokerConfig) -> None:
        self._change(_limits_of(config))
        self._look_up_hosts()

    def _change(self, limits: AdmissionLimits) -> None:
        self.limits = limits
        for admission in self._admissions:
            admission.change_limits(limits)

    def _look_up_hosts(self) -> None:
        limits = self.limits
        hosts = [host for host in limits.connections_per_address_overrides if address_bytes(host) is None]
        if hosts:
            self._workers.submit(_addresses_of, hosts).when_done(lambda found: self._on_found(limits, found))

    def _on_found(self, limits: AdmissionLimits, found: Deferred[dict[str, str]]) -> None:
        if limits is not self.limits or found.error is not None:
            # Others hold by now, and their hosts are being asked for; or there are far too many tasks to ask for any.
            return
        addresses = found.result()
        by_host = limits.connections_per_address_overrides
        overrides = {addresses.get(host, host): limit for host, limit in by_host.items()}
        self._change(replace(limits, connections_per_address_overrides=overrides))


def _limits_of(config: BrokerConfig) -> AdmissionLimits:
    """Hosts that are addresses in the form that the operating system gives them; others as they are."""
    return AdmissionLimits(
        connections_max=config.max_connections,
        connections_per_address_max=config.max_connections_per_ip,
        connections_per_address_overrides={
            host if address_bytes(host) is None else _address_of(host): limit
            for host, limit in config.connections_per_ip.items()
        },
        connections_per_listener_max={
            name: int(values.get("max.connections", UNLIMITED)) for name, values in config.listener_overrides.items()
        },
        connections_per_second_max=config.max_connection_creation_rate,
        connections_per_listener_per_second_max={
            name: int(values.get("max.connection.creation.rate", UNLIMITED))
            for name, values in config.listener_overrides.items()
        },
    )


def _addresses_of(hosts: Iterable[str]) -> dict[str, str]:
    return {host: _address_of(host) for host in hosts}


def _address_of(host: str) -> str:
    """What a host's name stands for; blocks, unless it is an address. The name itself when nobody knows."""
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except (OSError, ValueError) as error:
        # The latter where it cannot be a name at all, as with two dots in a row.
        logger.warning("max.connections.per.ip.overrides names %s, which cannot be resolved: %s", host, error)
        return host
