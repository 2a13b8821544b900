"""Executes the steps of a plan: throttled, watched, and stopped when producers suffer.

Only the plan is stored: a step asks the cluster which of its partitions have their new replicas already. So a run that
was interrupted at any point is simply run again. A partition that was changed by something else after the plan was made
is skipped: its new replicas were chosen for different current replicas.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, Protocol

from ottla.balance.planner import Movement
from ottla.balance.steps import Step
from ottla.balance.throttles import clear_throttles, set_rates, set_throttled_replicas
from ottla.client.admin import AdminClient
from ottla.client.admin.partitions import ElectionType, OngoingReassignment
from ottla.client.errors import ClientError
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition, Uuid

__all__ = ["Executor", "Guard", "ProducersSuffer", "find_topic_ids", "told_skips"]

POLL_SECONDS = 0.3
# A broker may learn late that a reassignment has ended: a difference from the plan has to last so many looks.
LOOKS = 4
# The looks after a move: brokers are most likely to be late then, and a finished move must not count as undone.
LOOKS_AFTER_MOVE = 30
# The partitions that a sentence lists.
SKIPS_LISTED_MAX = 10

_Replicas = Mapping[TopicPartition, Sequence[int]]

# The answer to a cancellation: the partition has moved meanwhile.
_ENDED = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
_HARMLESS = (ErrorCode.ELECTION_NOT_NEEDED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)


class Guard(Protocol):
    def complaint(self) -> str | None:
        """A sentence about how clients suffer now, or None."""


class ProducersSuffer(Exception):
    """The run was stopped. The message describes the outcome of the current step."""


class _Current(NamedTuple):
    """The current state of a partition."""

    topic_id: Uuid
    # Without the replicas that a reassignment is adding.
    replicas: tuple[int, ...]
    ongoing: OngoingReassignment | None

    def objection(self, movement: Movement, planned_id: Uuid | None) -> str | None:
        """Why the movement no longer fits the partition; None if it may be made, or is made already."""
        if planned_id is not None and planned_id != self.topic_id:
            return "the topic was deleted and created again"
        if self.ongoing is not None:
            target = self.ongoing.target
            return None if set(target) == set(movement.after) else f"it is being moved to {_listed(target)}"
        # A cancelled reassignment may leave the replicas in another order.
        if set(self.replicas) in (set(movement.before), set(movement.after)):
            return None
        return f"its replicas are {_listed(self.replicas)}, and no longer {_listed(movement.before)}"


async def find_topic_ids(admin: AdminClient, steps: Sequence[Step]) -> dict[str, Uuid]:
    """The ids of the topics that steps move, by which `Executor` recognizes them later."""
    described = await admin.topics.describe({movement.partition.topic for step in steps for movement in step.movements})
    return {name: topic.topic_id for name, topic in described.items() if not isinstance(topic, KafkaError)}


def told_skips(skipped: Mapping[TopicPartition, str]) -> str:
    """The skipped partitions as a sentence."""
    named = "; ".join(f"{partition}: {reason}" for partition, reason in list(skipped.items())[:SKIPS_LISTED_MAX])
    more = f"; and {len(skipped) - SKIPS_LISTED_MAX} more" if len(skipped) > SKIPS_LISTED_MAX else ""
    return f"Not moved, because they have changed since the plan was made: {named}{more}."


class Executor:
    """Moves replicas, step by step."""

    def __init__(
        self,
        admin: AdminClient,
        *,
        throttle: int | None,
        guard: Guard | None,
        on_step: Callable[[int, Step, int], None],
        topic_ids: Mapping[str, Uuid] | None = None,
    ) -> None:
        self._admin = admin
        self._throttle = throttle
        self._guard = guard
        # Called with the number of the step and how many of its partitions are still moving.
        self._on_step = on_step
        # The topics as they were when the plan was made.
        self._topic_ids = topic_ids or {}
        # Partitions that were not moved, with the reason.
        self.skipped: dict[TopicPartition, str] = {}
        # Whether throttles may be left, because replicas may still move, or because the cluster did not answer.
        self.leaves_throttles = False
        # Brokers whose rates are set.
        self._rated: set[int] = set()
        # The partitions of the current step.
        self._started: Sequence[TopicPartition] = ()
        # True if their moves were requested and the cluster has not answered: they may begin at any time.
        self._may_begin_later = False

    async def run(self, steps: Sequence[Step]) -> None:
        """Runs the steps. An interrupted run leaves the throttles while the replicas of its last step move."""
        topics = [movement.partition.topic for step in steps for movement in step.movements]
        try:
            for number, step in enumerate(steps):
                await self._run_step(number, step)
        except BaseException:
            # The caller needs the error that ended the run.
            with suppress(KafkaError, ClientError):
                await self._end_throttles(topics)
            raise
        await self._end_throttles(topics)

    async def _end_throttles(self, topics: Sequence[str]) -> None:
        """Clears the throttles, unless replicas still move or may begin to move."""
        if self._throttle is None:
            return
        self.leaves_throttles = True
        if self._may_begin_later or (self._started and await self._admin.partitions.reassignments(self._started)):
            return
        await clear_throttles(self._admin, topics)
        self.leaves_throttles = False

    async def _run_step(self, number: int, step: Step) -> None:
        movements, current = await self._planned(step)
        todo = [
            movement
            for movement in movements
            if current[movement.partition].ongoing is not None or current[movement.partition].replicas != movement.after
        ]
        targets = {movement.partition: movement.after for movement in todo}
        if self._throttle is not None and todo:
            before = {movement.partition: current[movement.partition].replicas for movement in todo}
            await self._set_throttles(before, targets, self._throttle)
        self._started = list(targets)
        for partition, error in (await self._reassign(targets) if targets else {}).items():
            if error is not None:
                raise KafkaError(error.code, f"{partition}: {error.message}")
        await self._wait(number, step, todo)
        self.skipped |= await self._undone(todo)
        await self._elect([movement for movement in movements if movement.partition not in self.skipped])

    async def _reassign(
        self, targets: Mapping[TopicPartition, tuple[int, ...]]
    ) -> Mapping[TopicPartition, KafkaError | None]:
        self._may_begin_later = True
        try:
            answers = await self._admin.partitions.reassign(targets)
        except KafkaError as error:
            self._may_begin_later = error.code is ErrorCode.REQUEST_TIMED_OUT
            raise
        self._may_begin_later = False
        return answers

    async def _set_throttles(self, before: _Replicas, targets: _Replicas, throttle: int) -> None:
        await set_throttled_replicas(self._admin, before, targets)
        involved = {broker for replicas in (*before.values(), *targets.values()) for broker in replicas}
        # A broker that is missing now may be back in a later step.
        self._rated |= await set_rates(self._admin, involved - self._rated, between=throttle)

    async def _wait(self, number: int, step: Step, todo: Sequence[Movement]) -> None:
        """Waits until no partition of the step moves. If clients suffer, takes the step back and raises."""
        wanted = [movement.partition for movement in todo]
        while wanted:
            moving = await self._admin.partitions.reassignments(wanted)
            self._on_step(number, step, len(moving))
            if not moving:
                return
            complaint = self._guard.complaint() if self._guard is not None else None
            if complaint is not None:
                raise ProducersSuffer(f"{complaint} {await self._take_back(number, list(moving))}")
            await asyncio.sleep(POLL_SECONDS)

    async def _undone(self, todo: Sequence[Movement]) -> dict[TopicPartition, str]:
        """The partitions that do not have their new replicas although nothing moves: something else interfered."""
        undone: dict[TopicPartition, str] = {}
        for look in range(LOOKS_AFTER_MOVE if todo else 0):
            if look:
                await asyncio.sleep(POLL_SECONDS)
            current = await self._current(Step(tuple(todo)))
            undone = {
                movement.partition: f"its move was cancelled or replaced; its replicas are {_listed(state.replicas)}"
                for movement in todo
                if (state := current.get(movement.partition)) and set(state.replicas) != set(movement.after)
            }
            if not undone:
                break
        return undone

    async def _take_back(self, number: int, moving: Sequence[TopicPartition]) -> str:
        """Cancels the reassignments of a step, and returns a sentence about the outcome."""
        try:
            answers = await self._admin.partitions.reassign(dict.fromkeys(moving))
        except (KafkaError, ClientError) as error:
            return f"Step {number + 1} could not be taken back and goes on: {error}"
        ended = [partition for partition, error in answers.items() if error is not None and error.code == _ENDED]
        refused = [
            f"{partition}: {error.code.name}"
            for partition, error in answers.items()
            if error is not None and partition not in ended
        ]
        kept = len(moving) - len(ended) - len(refused)
        taken_back = f"{kept} partitions keep their replicas, and the steps before are done."
        if ended:
            taken_back = f"{len(ended)} partitions had moved already, {taken_back}"
        if not refused:
            return f"Step {number + 1} was taken back: {taken_back}"
        return (
            f"Step {number + 1} was not taken back as a whole: {len(refused)} partitions still move "
            f"({'; '.join(refused[:SKIPS_LISTED_MAX])}), {taken_back}"
        )

    async def _elect(self, movements: Sequence[Movement]) -> None:
        """Elects the first replica of every partition that another replica leads."""
        if not movements:
            return
        partitions = [movement.partition for movement in movements]
        described = await self._admin.topics.describe({partition.topic for partition in partitions})
        leaders = {
            TopicPartition(name, info.partition): info.leader
            for name, topic in described.items()
            if not isinstance(topic, KafkaError)
            for info in topic.partitions
        }
        wrong = [
            movement.partition
            for movement in movements
            if leaders.get(movement.partition) not in (None, movement.after[0])
        ]
        if wrong:
            for partition, error in (await self._admin.partitions.elect(ElectionType.PREFERRED, wrong)).items():
                if error is not None and error.code not in _HARMLESS:
                    raise KafkaError(error.code, f"{partition}: {error.message}")

    async def _planned(self, step: Step) -> tuple[list[Movement], dict[TopicPartition, _Current]]:
        """The movements that still fit their partitions, and the current partitions; other movements are skipped."""
        objections: dict[TopicPartition, str] = {}
        for look in range(LOOKS):
            if look:
                await asyncio.sleep(POLL_SECONDS)
            current = await self._current(step)
            movements = [movement for movement in step.movements if movement.partition in current]
            reasons = {
                movement.partition: current[movement.partition].objection(
                    movement, self._topic_ids.get(movement.partition.topic)
                )
                for movement in movements
            }
            objections = {partition: reason for partition, reason in reasons.items() if reason is not None}
            if not objections:
                break
        self.skipped |= objections
        return [movement for movement in movements if movement.partition not in objections], current

    async def _current(self, step: Step) -> dict[TopicPartition, _Current]:
        """The current partitions; a topic that was deleted meanwhile is left out."""
        wanted = [movement.partition for movement in step.movements]
        # Read before the replicas: a reassignment that ends in between counts as ongoing, which does no harm.
        moving = await self._admin.partitions.reassignments(wanted)
        described = await self._admin.topics.describe({partition.topic for partition in wanted})
        partitions = {}
        for name, topic in described.items():
            if isinstance(topic, KafkaError):
                continue
            for info in topic.partitions:
                partition = TopicPartition(name, info.partition)
                ongoing = moving.get(partition)
                replicas = info.replicas if ongoing is None else ongoing.settled
                partitions[partition] = _Current(topic.topic_id, replicas, ongoing)
        return partitions


def _listed(replicas: Sequence[int]) -> str:
    return f"({', '.join(map(str, replicas))})"
