"""`Telemetry`: asks a broker which metrics it wants, and pushes them (KIP-714).

Pushing begins with the first connection to a broker that has a receiver. The first push comes after half to one and a
half intervals, so that clients that started together do not push together. A closed client pushes a last time, if a
broker wants its metrics. Errors never reach the application.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ottla.client.errors import ClientError, ConnectionLost, RequestUnsupported, TimedOut
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.wire.api import API_SPECS, ApiKey

if TYPE_CHECKING:
    from ottla.client.cluster import Cluster
    from ottla.client.connection import Connection
    from ottla.client.telemetry.points import ClientPoints
    from ottla.client.telemetry.subscription import TelemetrySubscription

__all__ = ["Telemetry"]

logger = logging.getLogger(__name__)

# The last push of a client that is closed must not delay its end.
_LAST_PUSH_MS = 1_000


class Telemetry:
    def __init__(self, cluster: Cluster, points: Callable[[], ClientPoints], resource: Mapping[str, str]) -> None:
        self._cluster = cluster
        self._make_points = points
        self._points: ClientPoints | None = None
        # Attributes of the client in every push, such as its group.
        self._resource = resource
        self._subscription: TelemetrySubscription | None = None
        self._instance_id = Uuid.ZERO
        self._known = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_over = False

    def on_connected(self, connection: Connection) -> None:
        """Begins to push, if the broker supports the requests."""
        if self._task is not None or self._is_over:
            return
        try:
            connection.version_of(API_SPECS[ApiKey.GET_TELEMETRY_SUBSCRIPTIONS])
        except RequestUnsupported:
            return
        self._task = asyncio.ensure_future(self._run())

    async def instance_id(self, timeout_ms: int) -> Uuid:
        """The id that a broker has given to this client. Raises TimedOut."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                # The first request to a broker shows if it has a receiver.
                await self._cluster.any_connection()
                await self._known.wait()
        except TimeoutError:
            raise TimedOut("No broker has given this client an id: none has a receiver of client metrics.") from None
        return self._instance_id

    async def close(self) -> None:
        """Pushes a last time, for a moment at most."""
        self._is_over = True
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        subscription = self._subscription
        if subscription is None or not subscription.metrics:
            return
        try:
            async with asyncio.timeout(_LAST_PUSH_MS / 1000):
                await self._push(subscription, terminating=True)
        except (TimeoutError, ClientError, KafkaError) as error:
            logger.debug("The last push of metrics failed: %s", error)

    async def _run(self) -> None:
        # Imported here, because most brokers have no receiver.
        from ottla.client.telemetry.subscription import DEFAULT_INTERVAL_MS, Next, after_push

        while True:
            step = Next.ASK_LATER
            try:
                subscription = self._subscription = await self._ask()
                if self._points is None and subscription.metrics:
                    # Rates of the first push are those since now.
                    self._points = self._make_points()
                await self._wait(subscription.interval_ms * random.uniform(0.5, 1.5))
                step = Next.PUSH if subscription.metrics else Next.ASK
                while step is Next.PUSH:
                    step = after_push(await self._push(subscription, terminating=False))
                    if step in (Next.PUSH, Next.ASK_LATER):
                        await self._wait(subscription.interval_ms)
            except RequestUnsupported:
                step = Next.STOP
            except KafkaError as error:
                if error.code in (ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION):
                    step = Next.STOP
                else:
                    await self._wait(DEFAULT_INTERVAL_MS)
            except ClientError:
                # No broker answers at the moment.
                await self._wait(self._cluster.settings.retry_backoff_max_ms)
            if step is Next.STOP:
                self._subscription = None
                logger.info("Metrics are not pushed any more: the broker does not take them.")
                return

    async def _wait(self, milliseconds: float) -> None:
        await asyncio.sleep(milliseconds / 1000)

    async def _ask(self) -> TelemetrySubscription:
        from ottla.client.telemetry.subscription import TelemetrySubscription
        from ottla.wire.messages.get_telemetry_subscriptions import (
            GetTelemetrySubscriptionsRequest,
            GetTelemetrySubscriptionsResponse,
        )

        connection = await self._cluster.any_connection()
        response: GetTelemetrySubscriptionsResponse = await connection.ask(
            GetTelemetrySubscriptionsRequest(client_instance_id=self._instance_id),
            timeout_ms=self._cluster.settings.request_timeout_ms,
        )
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code))
        self._instance_id = response.client_instance_id
        self._known.set()
        return TelemetrySubscription.of(response)

    async def _push(self, subscription: TelemetrySubscription, *, terminating: bool) -> int:
        from ottla.records.compression import compress
        from ottla.wire.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
        from ottla.wire.otlp import encode_metrics

        if self._points is None:
            self._points = self._make_points()
        points = self._points.read(subscription.wants, is_delta=subscription.is_delta, now_ns=time.time_ns())
        payload = compress(subscription.codec, encode_metrics(points, self._resource))
        connection = await self._cluster.any_connection()
        request = PushTelemetryRequest(
            client_instance_id=subscription.instance_id,
            subscription_id=subscription.subscription_id,
            terminating=terminating,
            compression_type=int(subscription.codec),
            metrics=payload,
        )
        try:
            response: PushTelemetryResponse = await connection.ask(
                request, timeout_ms=self._cluster.settings.request_timeout_ms
            )
        except (ConnectionLost, asyncio.CancelledError):
            # The broker may have the points. The next push must not count the same growth twice.
            self._points.on_accepted()
            raise
        if not response.error_code:
            self._points.on_accepted()
        return response.error_code
