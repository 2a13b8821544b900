"""`ClientMetricsReceiver`: answers GetTelemetrySubscriptions and PushTelemetry."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

from ottla.broker.client_metrics.instances import ClientInstances
from ottla.broker.client_metrics.series import POINTS_MAX, PushedMetrics
from ottla.broker.client_metrics.subscriptions import ClientAttributes, Subscriptions, Target
from ottla.metadata.image import ConfigsImage
from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.records.compression import Codec, DecompressionFailed, decompress
from ottla.wire.otlp import MalformedMetrics, decode_metrics

__all__ = ["ACCEPTED_CODECS", "ClientMetricsReceiver", "Pushed"]

# In the order in which clients should prefer them, as in Apache Kafka.
ACCEPTED_CODECS = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)
# Metrics compress well; a payload that grows beyond this is refused.
_EXPANSION_MAX = 20


class Pushed(NamedTuple):
    """A push as a client has sent it."""

    instance_id: Uuid
    subscription_id: int
    terminating: bool
    codec: int
    payload: bytes | bytearray | memoryview


class ClientMetricsReceiver:
    def __init__(self, random: Random, payload_bytes_max: int) -> None:
        self._random = random
        self._payload_bytes_max = payload_bytes_max
        self._subscriptions: Subscriptions | None = None
        self.instances = ClientInstances()
        self.pushed = PushedMetrics()
        self.pushes = 0
        self.refused: dict[ErrorCode, int] = {}

    def ask(
        self, instance_id: Uuid, client: ClientAttributes, configs: ConfigsImage, now: float
    ) -> tuple[ErrorCode, Uuid, Target, int]:
        """The error, the instance, its target, and the id of its subscription."""
        if instance_id == Uuid.ZERO:
            instance_id = Uuid.random(self._random)
        target = self._target(instance_id, client, configs)
        instance = self.instances.find(instance_id, target)
        return self._counted(instance.ask(now)), instance_id, target, instance.subscription_id

    def push(self, pushed: Pushed, client: ClientAttributes, configs: ConfigsImage, now: float) -> ErrorCode:
        if pushed.instance_id == Uuid.ZERO:
            return self._counted(ErrorCode.INVALID_REQUEST)
        target = self._target(pushed.instance_id, client, configs)
        instance = self.instances.find(pushed.instance_id, target)
        code = instance.push(pushed.subscription_id, now, terminating=pushed.terminating)
        if code is ErrorCode.NONE:
            code = instance.last_error = self._take(pushed, client, target, now)
        return self._counted(code)

    def _take(self, pushed: Pushed, client: ClientAttributes, target: Target, now: float) -> ErrorCode:
        if pushed.codec not in (Codec.NONE, *ACCEPTED_CODECS):
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if len(pushed.payload) > self._payload_bytes_max:
            return ErrorCode.TELEMETRY_TOO_LARGE
        try:
            limit = _EXPANSION_MAX * self._payload_bytes_max
            content = decompress(Codec(pushed.codec), pushed.payload, limit=limit)
            # Decoding ends with the last point that is kept, however long the payload is.
            points = decode_metrics(content, points_max=POINTS_MAX)
        except (DecompressionFailed, MalformedMetrics):
            return ErrorCode.INVALID_RECORD
        self.pushes += 1
        software = f"{client.client_software_name} {client.client_software_version}"
        if pushed.terminating:
            self.pushed.remove(pushed.instance_id)
        else:
            self.pushed.add(
                pushed.instance_id, client.client_id, software, points, now=now, interval_ms=target.interval_ms
            )
        return ErrorCode.NONE

    def _target(self, instance_id: Uuid, client: ClientAttributes, configs: ConfigsImage) -> Target:
        if self._subscriptions is None or self._subscriptions.configs is not configs:
            self._subscriptions = Subscriptions(configs)
        return self._subscriptions.target(client._replace(client_instance_id=str(instance_id)))

    def _counted(self, code: ErrorCode) -> ErrorCode:
        if code is not ErrorCode.NONE:
            self.refused[code] = self.refused.get(code, 0) + 1
        return code
