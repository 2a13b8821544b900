"""Executes the steps of a plan: throttled, watched, and stopped when producers suffer.

Nothing is remembered but the plan: a step asks the cluster which of its partitions have their new replicas already. So
a run that was interrupted at any point is simply run again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from ottla.balance.planner import Movement
from ottla.balance.steps import Step
from ottla.balance.throttles import clear_throttles, set_rates, set_throttled_replicas
from ottla.client.admin import AdminClient
from ottla.client.admin.partitions import ElectionType
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["Executor", "Guard", "ProducersSuffer"]

POLL_SECONDS = 0.3

_Replicas = Mapping[TopicPartition, Sequence[int]]

_HARMLESS = (ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)


class Guard(Protocol):
    def complaint(self) -> str | None:
        """A sentence about how clients suffer now; None if they do not."""


class ProducersSuffer(Exception):
    """The run was stopped, and the step that was going on was taken back."""


class Executor:
    """Moves replicas, step by step."""

    def __init__(
        self,
        admin: AdminClient,
        *,
        throttle: int | None,
        guard: Guard | None,
        on_step: Callable[[int, Step, int], None],
    ) -> None:
        self._admin = admin
        self._throttle = throttle
        self._guard = guard
        # Called with the number of the step and how many of its partitions are still moving.
        self._on_step = on_step
        # Brokers whose rates are set.
        self._rated: set[int] = set()

    async def run(self, steps: Sequence[Step]) -> None:
        topics = [movement.partition.topic for step in steps for movement in step.movements]
        try:
            for number, step in enumerate(steps):
                await self._run_step(number, step)
        finally:
            if self._throttle is not None:
                await clear_throttles(self._admin, topics)

    async def _run_step(self, number: int, step: Step) -> None:
        current = await self._current(step)
        todo = [one for one in step.movements if current.get(one.partition, one.after) != one.after]
        targets = {movement.partition: movement.after for movement in todo}
        if self._throttle is not None and todo:
            before = {movement.partition: current[movement.partition] for movement in todo}
            await self._set_throttles(before, targets, self._throttle)
        for partition, error in (await self._admin.partitions.reassign(targets) if targets else {}).items():
            if error is not None:
                raise KafkaError(error.code, f"{partition}: {error.message}")
        await self._wait(number, step, todo)
        await self._elect(step)

    async def _set_throttles(self, before: _Replicas, targets: _Replicas, throttle: int) -> None:
        await set_throttled_replicas(self._admin, before, targets)
        involved = {one for some in (*before.values(), *targets.values()) for one in some}
        # A broker that is away now may be back in a later step.
        self._rated |= await set_rates(self._admin, involved - self._rated, between=throttle)

    async def _wait(self, number: int, step: Step, todo: Sequence[Movement]) -> None:
        """Until no partition of the step moves any more. If clients suffer, the step is taken back."""
        wanted = [movement.partition for movement in todo]
        while wanted:
            moving = await self._admin.partitions.reassignments(wanted)
            self._on_step(number, step, len(moving))
            if not moving:
                return
            complaint = self._guard.complaint() if self._guard is not None else None
            if complaint is not None:
                await self._admin.partitions.reassign(dict.fromkeys(moving))
                raise ProducersSuffer(
                    f"{complaint} Step {number + 1} was taken back: {len(moving)} partitions keep their replicas, "
                    f"and the steps before are done."
                )
            await asyncio.sleep(POLL_SECONDS)

    async def _elect(self, step: Step) -> None:
        """The first replica leads, wherever that is another one than before."""
        partitions = [movement.partition for movement in step.movements]
        described = await self._admin.topics.describe({partition.topic for partition in partitions})
        leaders = {
            TopicPartition(name, one.partition): one.leader
            for name, topic in described.items()
            if not isinstance(topic, KafkaError)
            for one in topic.partitions
        }
        wrong = [one.partition for one in step.movements if leaders.get(one.partition) not in (None, one.after[0])]
        if wrong:
            for partition, error in (await self._admin.partitions.elect(ElectionType.PREFERRED, wrong)).items():
                if error is not None and error.code not in _HARMLESS:
                    raise KafkaError(error.code, f"{partition}: {error.message}")

    async def _current(self, step: Step) -> dict[TopicPartition, tuple[int, ...]]:
        """The replicas as they are; a topic that was deleted meanwhile is left out."""
        described = await self._admin.topics.describe({movement.partition.topic for movement in step.movements})
        return {
            TopicPartition(name, one.partition): one.replicas
            for name, topic in described.items()
            if not isinstance(topic, KafkaError)
            for one in topic.partitions
        }
