"""Whether the flow still belongs to the run of a worker, by the state at the target."""

from __future__ import annotations

import asyncio

from ottla.client.cluster import Cluster
from ottla.mirror.settings import FlowSettings
from ottla.mirror.state import FlowState, FlowStates
from ottla.model.ids import TopicPartition

__all__ = ["Ownership"]

_SECONDS = 5.0
_NEWS_SECONDS = 0.2


class Ownership:
    """Without a run id nothing is checked: the caller ensures that the flow has a single worker of every number."""

    def __init__(self, flow: FlowSettings, target: Cluster, run_id: str | None) -> None:
        self._run_id = run_id
        self._states = FlowStates(flow, target)
        self._state = FlowState()
        self._due_at = 0.0
        self._news_at = 0.0

    async def check_when_due(self) -> None:
        """Raises FlowEnded. Called often, it reads the state every few seconds."""
        if self._run_id is not None and asyncio.get_running_loop().time() >= self._due_at:
            await self.check()

    async def check(self) -> None:
        if self._run_id is not None:
            self._state = await self._states.check_owner(self._run_id)
            self._due_at = asyncio.get_running_loop().time() + _SECONDS

    async def topics_have_changed(self) -> bool:
        """True if the driver has announced new topics since the last call. It may be called often."""
        now = asyncio.get_running_loop().time()
        if self._run_id is None or now < self._news_at:
            return False
        self._news_at = now + _NEWS_SECONDS
        return await self._states.topics_have_changed()

    def cut_until(self, place: TopicPartition) -> int:
        """Offsets of the source below which records may have come back from the target in a failback."""
        parting = self._state.parting(place)
        return 0 if parting is None else parting.cut_until

    async def close(self) -> None:
        await self._states.close()
