"""PushTelemetry (key 72), version 0: metrics of a client (KIP-714).

Announced with `ottla.client.metrics.enable` only. The metrics are shown by the metrics endpoint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.apis.get_telemetry_subscriptions import attributes_of
from ottla.broker.client_metrics.receiver import Pushed
from ottla.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = ["API"]


def handle(request: PushTelemetryRequest, context: RequestContext, broker: Broker) -> PushTelemetryResponse:
    pushed = Pushed(
        request.client_instance_id,
        request.subscription_id,
        request.terminating,
        request.compression_type,
        request.metrics,
    )
    now = broker.world.clock.monotonic()
    code = broker.client_metrics.push(pushed, attributes_of(context), broker.metadata.image.configs, now)
    return PushTelemetryResponse(error_code=code)


API = Api(request=PushTelemetryRequest, response=PushTelemetryResponse, handle=handle)
