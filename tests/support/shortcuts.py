"""Shared by model tests of shortcuts: a dispatcher without shortcuts, access rules and quotas that change, and a clock
that moves while a request is handled.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.broker.apis import HandlerSpec
from ottla.broker.apis.api import Api
from ottla.broker.authorization import AllowAll, Operation, ResourceType
from ottla.broker.context import RequestContext
from ottla.broker.dispatch import Dispatcher
from ottla.broker.quotas.gate import Quotas
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.model.config import BrokerConfig
from ottla.wire.messages.metadata_records import ClientQuotaRecord, EntityData

__all__ = ["ChangingQuotas", "RuleAuthorizer", "UsualDispatcher", "WorkingClock"]


class UsualDispatcher(Dispatcher):
    """A dispatcher that takes no shortcut."""

    def _load(self, api_key: int, handler: HandlerSpec) -> Api:
        return super()._load(api_key, handler).replaced(shortcut=None)


class RuleAuthorizer(AllowAll):
    """Denies the resources in `denied`, and counts the authorizations."""

    def __init__(self) -> None:
        self.decisions_version = 0
        self.denied: frozenset[tuple[ResourceType, str]] = frozenset()
        self.asked = 0

    def deny(self, *resources: tuple[ResourceType, str]) -> None:
        """Denies exactly these resources."""
        self.denied = frozenset(resources)
        self.decisions_version += 1

    def authorize(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        self.asked += 1
        return (resource_type, resource_name) not in self.denied


class WorkingClock:
    """A world's clock plus the time that requests have taken so far."""

    def __init__(self, clock: Any) -> None:
        self.now_ms = clock.now_ms
        self._clock = clock
        self._worked_seconds = 0.0
        self._is_first = False
        self._work_seconds = 0.0

    def begin(self, work_seconds: float) -> None:
        """Sets the duration of the next request: its first clock reading is before the work, later ones after it."""
        self._work_seconds = work_seconds
        self._is_first = True

    def monotonic(self) -> float:
        now: float = self._clock.monotonic() + self._worked_seconds
        if self._is_first:
            self._is_first = False
            self._worked_seconds += self._work_seconds
        return now


class ChangingQuotas(Quotas):
    """Quotas of the default user, without a metadata log."""

    def __init__(self, clock: WorkingClock) -> None:
        super().__init__(BrokerConfig.embedded(), clock)
        self._image = MetadataImage(cluster_id="test")

    def set(self, values: Mapping[str, float | None]) -> None:
        """Sets the quotas; None removes a quota."""
        delta = MetadataDelta(self._image)
        for key, value in values.items():
            record = ClientQuotaRecord(entity=[EntityData(entity_type="user", entity_name=None)], key=key)
            if value is None:
                record.remove = True
            else:
                record.value = value
            delta.replay(record)
        self._image = delta.apply(offset=self._image.offset + 1, epoch=1, timestamp_ms=1)
        self.publish(delta, self._image)
