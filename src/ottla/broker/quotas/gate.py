"""The interface of the quotas to the rest of the node.

Without a quota a request only reads `is_set`; the module with the meters (`clients`) is imported with the first quota.
A connection refers to this object for its whole life, so a new quota applies to its next request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.quotas.metering import Metering

if TYPE_CHECKING:
    from ottla.broker.context import RequestContext
    from ottla.broker.quotas.allowance import Allowance
    from ottla.broker.quotas.clients import ClientQuotas, MutationQuota
    from ottla.metadata.delta import MetadataDelta
    from ottla.metadata.image import MetadataImage
    from ottla.model.config import BrokerConfig
    from ottla.model.ports import Clock

__all__ = ["Quotas"]


class Quotas:
    """A publisher of metadata, and a `QuotaManager`."""

    __slots__ = ("_clock", "_config", "clients", "is_set", "limits_connections", "measures_time")

    def __init__(self, config: BrokerConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        # None until the first quota is set.
        self.clients: ClientQuotas | None = None
        # True if any user or client id has a quota; true if any address has one.
        self.is_set = False
        self.limits_connections = False
        # True if the share of the node's time has a quota.
        self.measures_time = False

    def start(self, image: MetadataImage) -> None:
        """Applies the quotas of the image with which the node starts."""
        self._apply(image)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        if delta.quotas_changed:
            self._apply(image)

    def _apply(self, image: MetadataImage) -> None:
        quotas = image.client_quotas.by_entity
        if self.clients is None:
            if not quotas:
                return
            from ottla.broker.quotas.clients import ClientQuotas

            self.clients = ClientQuotas(self._config, self._clock)
        self.clients.change(quotas)
        self.is_set = self.clients.limits_clients
        self.measures_time = bool(self.clients.request)
        self.limits_connections = bool(self.clients.connections)

    def charge(
        self,
        context: RequestContext,
        metering: Metering,
        *,
        throttle_time_ms: int,
        handled_seconds: float,
        request_bytes: int,
    ) -> int:
        """Counts a request that is about to be answered, and mutes its connection if its client used too much.

        Takes the throttle time that the handler has set (a fetch was too large, topics were created too fast), and
        returns the one to answer with.
        """
        clients = self.clients
        if clients is None or metering is Metering.NONE or context.connection.listener.is_controller:
            # A controller's listener serves nodes. A broker that forwards a client's request meters it itself.
            return 0
        throttle_ms = throttle_time_ms
        if metering is Metering.TIME_AND_REQUEST_BYTES:
            allowance = self.allowance(context)
            if allowance is not None:
                throttle_ms = max(throttle_ms, allowance.produced(request_bytes))
        if self.measures_time:
            throttle_ms = max(throttle_ms, clients.requested(context, handled_seconds))
        if throttle_ms > 0:
            _mute(context, throttle_ms)
        return throttle_ms

    def charge_bytes(self, context: RequestContext, request_bytes: int) -> int:
        """`charge` for a produce request while time is not measured, in fewer steps for the hot path."""
        allowance = context.connection.allowance
        if allowance is None or allowance.client_id != context.client_id:
            allowance = self.allowance(context)
            if allowance is None:
                return 0
        if allowance.produce_ms == context.received_ms and request_bytes <= allowance.produce_left:
            allowance.produce_left -= request_bytes
            return 0
        allowance.produce_ms = context.received_ms
        throttle_ms = allowance.produced(request_bytes)
        if throttle_ms:
            _mute(context, throttle_ms)
        return throttle_ms

    def allowance(self, context: RequestContext) -> Allowance | None:
        clients, connection = self.clients, context.connection
        if clients is None:
            return None
        allowance = connection.allowance
        if allowance is None or allowance.client_id != context.client_id:
            allowance = connection.allowance = clients.allowance(connection.principal.name, context.client_id)
        elif allowance.number != clients.resolution.number:
            allowance.resolve()
        return allowance

    def mutations(self, context: RequestContext, *, is_strict: bool) -> MutationQuota | None:
        return None if self.clients is None else self.clients.mutations(context, is_strict=is_strict)

    def connected(self, address: str) -> float:
        return 0.0 if self.clients is None else self.clients.connected(address)


def _mute(context: RequestContext, throttle_ms: int) -> None:
    mute = context.connection.mute
    if mute is not None:
        mute(throttle_ms / 1000)
