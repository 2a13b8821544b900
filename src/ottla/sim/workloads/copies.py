"""Consume, transform, produce: records are copied in a transaction that also commits the offsets of the input.

Two instances may share a transactional id and a group. An instance that was fenced initializes again, and thereby
fences the other instance. Every record must be copied exactly once.
"""

from __future__ import annotations

from ottla.sim.history import Copies
from ottla.sim.tasks import sleep
from ottla.sim.workloads.offsets import GroupOffsets
from ottla.sim.workloads.read_committed import committed_records, fetch_committed
from ottla.sim.workloads.session import TransactionFailed, TransactionSession
from ottla.sim.workloads.workload import Stage, Workload

__all__ = ["Copy"]

RECORDS_MAX = 3


class Copy(Workload):
    def __init__(
        self,
        stage: Stage,
        name: str,
        copies: Copies,
        *,
        is_version_2: bool,
        pause_seconds: float,
        takes_over: bool = False,
    ) -> None:
        super().__init__(stage, name)
        stage.transactional_hosts.add(self.client.host)
        self._copies = copies
        self._pause_seconds = pause_seconds
        self._takes_over = takes_over
        self._session = TransactionSession(self.client, copies.name, is_version_2=is_version_2)
        self._offsets = GroupOffsets(self.client, stage.history, copies.name)
        self._position: int | None = None

    async def run(self) -> None:
        while not self.stage.is_ending:
            try:
                await self._copy_some()
            except TransactionFailed as failure:
                self.client.kernel.trace(f"copy: {failure}", self.name)
                self._position = None
                if self._takes_over:
                    # A fenced instance waits before it fences the other one. Otherwise neither makes progress.
                    await sleep(self.client.process, self.random.uniform(0.5, 4.0))
            await sleep(self.client.process, self.random.uniform(0, 2 * self._pause_seconds))
        # The last InitProducerId aborts an open transaction. After it the committed offset does not change.
        await self._session.begin()
        self._copies.committed = max(self._copies.committed, await self._committed())

    async def _copy_some(self) -> None:
        session, copies = self._session, self._copies
        if self._position is None:
            await session.begin()
            self._position = max(0, await self._committed())
        data = await fetch_committed(self.client, copies.source, self._position)
        if data is None:
            return
        end = self._position
        offsets: list[int] = []
        for offset, value in committed_records(data):
            if value is not None and offset >= self._position:
                if len(offsets) == RECORDS_MAX:
                    break
                offsets.append(offset)
            end = max(end, offset + 1)
        if not offsets:
            self._position = end
            return
        if not session.is_version_2:
            await session.add([copies.target])
        for offset in offsets:
            await session.produce(copies.target, copies.value(offset))
        if not session.is_version_2:
            await session.add_offsets(copies.name)
        await session.commit_offset(copies.name, copies.source, end)
        is_commit = self.random.random() < 0.8
        await session.end(is_commit=is_commit)
        self.client.kernel.counts["copies committed" if is_commit else "copies aborted"] += 1
        if is_commit:
            self._position = end

    async def _committed(self) -> int:
        while True:
            offset = await self._offsets.fetch(self._copies.source)
            if offset is not None:
                return offset
            await self.client.back_off()
