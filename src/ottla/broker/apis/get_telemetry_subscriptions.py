"""GetTelemetrySubscriptions (key 71), version 0: the metrics that a client shall push (KIP-714).

Announced with `ottla.client.metrics.enable` only. No permission is needed, as in Apache Kafka.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.apis.api import Api
from ottla.broker.client_metrics.receiver import ACCEPTED_CODECS
from ottla.broker.client_metrics.subscriptions import ClientAttributes
from ottla.model.errors import ErrorCode
from ottla.wire.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = ["API"]


def attributes_of(context: RequestContext) -> ClientAttributes:
    connection = context.connection
    return ClientAttributes(
        client_instance_id="",
        client_id=context.client_id or "",
        client_software_name=connection.client_software_name,
        client_software_version=connection.client_software_version,
        client_source_address=connection.client_host,
        client_source_port=str(connection.client_port),
    )


def handle(
    request: GetTelemetrySubscriptionsRequest, context: RequestContext, broker: Broker
) -> GetTelemetrySubscriptionsResponse:
    code, instance_id, target, subscription_id = broker.client_metrics.ask(
        request.client_instance_id,
        attributes_of(context),
        broker.metadata.image.configs,
        broker.world.clock.monotonic(),
    )
    if code is not ErrorCode.NONE:
        return GetTelemetrySubscriptionsResponse(error_code=code)
    return GetTelemetrySubscriptionsResponse(
        client_instance_id=instance_id,
        subscription_id=subscription_id,
        accepted_compression_types=[int(codec) for codec in ACCEPTED_CODECS],
        push_interval_ms=target.interval_ms,
        telemetry_max_bytes=broker.config.telemetry_max_bytes,
        delta_temporality=True,
        requested_metrics=list(target.metrics),
    )


API = Api(request=GetTelemetrySubscriptionsRequest, response=GetTelemetrySubscriptionsResponse, handle=handle)
