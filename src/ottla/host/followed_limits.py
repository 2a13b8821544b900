"""The connection limits of the configuration, updated when the configuration changes.

`max.connections.per.ip.overrides` may name hosts. A worker resolves their addresses: a name server that does not answer
must not block the loop, and a name that cannot be resolved (it may be in the cluster's metadata already) must not keep
a node from starting.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterable
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
    """`limits` are the limits of the newest configuration; overrides of named hosts follow when they are resolved."""

    def __init__(self, config: BrokerConfig, workers: Workers) -> None:
        self._workers = workers
        self._admissions: list[Admission] = []
        self.limits = _limits_of(config)
        self._look_up_hosts()

    def tell(self, admission: Admission) -> None:
        """Registers an `Admission` for future changes."""
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
            self._workers.submit(_addresses_of, hosts).when_done(lambda resolved: self._on_resolved(limits, resolved))

    def _on_resolved(self, limits: AdmissionLimits, resolved: Deferred[dict[str, str]]) -> None:
        if limits is not self.limits or resolved.error is not None:
            # A newer configuration is being resolved, or the workers' queue is full.
            return
        addresses = resolved.result()
        by_host = limits.connections_per_address_overrides
        overrides = {addresses.get(host, host): limit for host, limit in by_host.items()}
        self._change(limits.replaced(connections_per_address_overrides=overrides))


def _limits_of(config: BrokerConfig) -> AdmissionLimits:
    """Overrides with addresses in the form of the operating system; host names stay as they are."""
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
    """The address of a host name, or the name itself if it cannot be resolved. Blocks, unless it is an address."""
    try:
        return str(socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0][4][0])
    except (OSError, ValueError) as error:
        # UnicodeError for an invalid name, such as one with two dots in a row.
        logger.warning("max.connections.per.ip.overrides names %s, which cannot be resolved: %s", host, error)
        return host
