"""`/connectors/{name}/topics`: the topics that a connector has read or written (KIP-558)."""

from __future__ import annotations

from typing import Any

from ottla.connect.configuration.worker_config import WorkerConfig
from ottla.connect.control.request_errors import RequestError
from ottla.connect.control.stores.status import StatusStore

__all__ = ["ActiveTopics"]


class ActiveTopics:
    def __init__(self, status: StatusStore, config: WorkerConfig) -> None:
        self._status = status
        self._settings = config.settings

    def used_by(self, name: str) -> dict[str, Any]:
        self._require_tracking()
        return {name: {"topics": self._status.topics(name)}}

    async def reset(self, name: str) -> None:
        self._require_tracking()
        if not self._settings.flag("topic.tracking.allow.reset"):
            raise RequestError(403, "The list of topics may not be reset here (topic.tracking.allow.reset).")
        await self._status.reset_topics(name)

    def _require_tracking(self) -> None:
        if not self._settings.flag("topic.tracking.enable"):
            raise RequestError(403, "Topics are not tracked here (topic.tracking.enable).")
