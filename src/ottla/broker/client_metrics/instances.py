"""Known client instances: when they may ask for their subscription and push, and the errors otherwise."""

from __future__ import annotations

from collections import OrderedDict

from ottla.broker.client_metrics.subscriptions import Target
from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid

__all__ = ["ClientInstance", "ClientInstances"]

# The limit of Apache Kafka. A forgotten client may merely ask again before its interval is over.
INSTANCES_MAX = 16_384

_MAY_ASK_AGAIN = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)


class ClientInstance:
    __slots__ = ("asked_at", "has_ended", "last_error", "pushed_at", "subscription_id", "target")

    def __init__(self, target: Target, subscription_id: int) -> None:
        self.target = target
        self.subscription_id = subscription_id
        # Times of the clock that the caller gives; None before the first request.
        self.asked_at: float | None = None
        self.pushed_at: float | None = None
        self.has_ended = False
        self.last_error = ErrorCode.NONE

    def ask(self, now: float) -> ErrorCode:
        """The client asks for its subscription: once within an interval, and after an error that tells it to."""
        last = max((at for at in (self.asked_at, self.pushed_at) if at is not None), default=None)
        if last is not None and not self._is_over(last, now) and self.last_error not in _MAY_ASK_AGAIN:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        self.asked_at, self.last_error = now, ErrorCode.NONE
        return ErrorCode.NONE

    def push(self, subscription_id: int, now: float, *, terminating: bool) -> ErrorCode:
        """The client pushes: after it has asked, then once within an interval, and a last time at any time."""
        if self.has_ended:
            return self._failed(ErrorCode.INVALID_REQUEST)
        is_first = self.pushed_at is None or (self.asked_at is not None and self.asked_at > self.pushed_at)
        if not terminating and not is_first and self.pushed_at is not None and not self._is_over(self.pushed_at, now):
            return self._failed(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        self.pushed_at = now
        if subscription_id != self.subscription_id:
            return self._failed(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
        self.has_ended = terminating
        return self._failed(ErrorCode.NONE)

    def _failed(self, code: ErrorCode) -> ErrorCode:
        self.last_error = code
        return code

    def _is_over(self, since: float, now: float) -> bool:
        return now - since >= self.target.interval_ms / 1000


class ClientInstances:
    """The most recent instances. If a client's target changes, its next push is refused, and it may ask again."""

    def __init__(self) -> None:
        self._instances: OrderedDict[Uuid, ClientInstance] = OrderedDict()

    def __len__(self) -> int:
        return len(self._instances)

    def find(self, instance_id: Uuid, target: Target) -> ClientInstance:
        instance = self._instances.get(instance_id)
        if instance is None:
            instance = self._instances[instance_id] = ClientInstance(target, target.id_for(instance_id))
            if len(self._instances) > INSTANCES_MAX:
                self._instances.popitem(last=False)
        elif instance.target != target:
            instance.target, instance.subscription_id = target, target.id_for(instance_id)
        self._instances.move_to_end(instance_id)
        return instance
