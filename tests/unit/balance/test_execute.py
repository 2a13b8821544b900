"""The execution of a plan's steps, on a cluster that only records its commands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.balance import execute
from ottla.balance.execute import Executor, ProducersSuffer, told_skips
from ottla.balance.planner import Movement
from ottla.balance.steps import Step
from ottla.client.admin.configs import ConfigResource, ResourceType
from ottla.client.admin.partitions import OngoingReassignment
from ottla.client.errors import ClientError
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition, Uuid

ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)
TOPIC_ID = Uuid(b"t" * 16)


class Cluster:
    """An admin client's view of a cluster in which every movement is done at once."""

    def __init__(self, replicas: Mapping[TopicPartition, tuple[int, ...]], brokers: Collection[int]) -> None:
        self.replicas = dict(replicas)
        self.brokers = set(brokers)
        self.rated: list[int] = []
        # The configurations of topics, as they were set.
        self.throttled: list[dict[str, str]] = []
        # Reassignments that go on until the next one, and answers to their cancellation.
        self.moving: dict[TopicPartition, OngoingReassignment] = {}
        self.refusals: dict[TopicPartition, KafkaError] = {}
        self.targets: list[dict[TopicPartition, tuple[int, ...] | None]] = []
        self.after_reassignment: Callable[[], None] = lambda: None
        # An admin client consists of these parts.
        self.connections = self.metadata = self.configs = self.topics = self.partitions = self

    async def refresh(self, _: Sequence[str]) -> None:
        pass

    async def alter(self, changes: Mapping[ConfigResource, Any]) -> dict[ConfigResource, None]:
        for resource, config_changes in changes.items():
            if resource.type is ResourceType.TOPIC:
                self.throttled.append({change.name: change.value for change in config_changes})
        self.rated += [int(resource.name) for resource in changes if resource.type is ResourceType.BROKER]
        return dict.fromkeys(changes)

    async def describe(self, wanted: Collection[Any], *, keys: Any = None) -> dict[Any, Any]:
        if keys is not None:
            return {resource: [] for resource in wanted}
        topics: dict[str, Any] = {topic: SimpleNamespace(partitions=[], topic_id=TOPIC_ID) for topic in wanted}
        for (topic, index), replicas in self.replicas.items():
            partition = SimpleNamespace(partition=index, replicas=replicas, leader=replicas[0])
            topics[topic].partitions.append(partition)
        return topics

    async def reassign(
        self, targets: Mapping[TopicPartition, tuple[int, ...] | None]
    ) -> dict[TopicPartition, KafkaError | None]:
        self.targets.append(dict(targets))
        for partition, target in targets.items():
            if target is not None:
                self.replicas[partition] = target
                self.moving.pop(partition, None)
        self.after_reassignment()
        return {moved: self.refusals.get(moved) if target is None else None for moved, target in targets.items()}

    async def reassignments(self, wanted: Sequence[TopicPartition]) -> dict[TopicPartition, OngoingReassignment]:
        return {partition: self.moving[partition] for partition in wanted if partition in self.moving}

    async def elect(self, _: Any, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, None]:
        raise AssertionError(partitions)


def test_a_broker_that_comes_back_is_throttled_from_then_on() -> None:
    first, second, third = (TopicPartition("t", index) for index in range(3))
    cluster = Cluster({first: (1, 2), second: (1, 2), third: (1, 2)}, brokers={1, 3})
    steps = [
        Step((Movement(partition=partition, before=(1, 2), after=(1, 3), size_bytes=1.0),))
        for partition in (first, second, third)
    ]
    cluster.after_reassignment = lambda: cluster.brokers.add(2)
    executor = Executor(cluster, throttle=1_000, guard=None, on_step=lambda *_: None)  # type: ignore[arg-type]
    asyncio.run(executor.run(steps))
    assert cluster.rated == [1, 3, 2]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execute, "POLL_SECONDS", 0)


def run(cluster: Cluster, *movements: Movement, **options: Any) -> Executor:
    settings: dict[str, Any] = {"throttle": None, "guard": None, "on_step": lambda *_: None, **options}
    executor = Executor(cluster, **settings)  # type: ignore[arg-type]
    asyncio.run(executor.run([Step(movements)]))
    return executor


def movement(partition: TopicPartition, before: tuple[int, ...], after: tuple[int, ...]) -> Movement:
    return Movement(partition=partition, before=before, after=after, size_bytes=1.0)


def test_a_partition_that_was_changed_since_keeps_its_replicas() -> None:
    cluster = Cluster({ONE: (1, 2, 3), OTHER: (1,)}, brokers={1, 2, 3})
    executor = run(cluster, movement(ONE, (1,), (2,)), movement(OTHER, (1,), (2,)))
    assert cluster.replicas == {ONE: (1, 2, 3), OTHER: (2,)}
    assert executor.skipped == {ONE: "its replicas are (1, 2, 3), and no longer (1)"}
    assert told_skips(executor.skipped).endswith(
        "the plan was made: t-0: its replicas are (1, 2, 3), and no longer (1)."
    )


def test_a_topic_that_was_created_again_is_not_the_one_of_the_plan() -> None:
    cluster = Cluster({ONE: (1,)}, brokers={1, 2})
    executor = run(cluster, movement(ONE, (1,), (2,)), topic_ids={"t": Uuid(b"o" * 16)})
    assert cluster.replicas == {ONE: (1,)}
    assert executor.skipped == {ONE: "the topic was deleted and created again"}
    assert run(cluster, movement(ONE, (1,), (2,)), topic_ids={"t": TOPIC_ID}).skipped == {}
    assert cluster.replicas == {ONE: (2,)}


def test_a_move_that_somebody_else_has_begun_goes_on() -> None:
    cluster = Cluster({ONE: (1, 3)}, brokers={1, 2, 3})
    cluster.moving[ONE] = OngoingReassignment((3, 1), adding=(3,), removing=(1,))
    executor = run(cluster, movement(ONE, (1,), (2,)))
    assert (cluster.targets, executor.skipped) == ([], {ONE: "it is being moved to (3)"})


def test_a_move_that_was_cancelled_or_has_only_another_order_is_made() -> None:
    cluster = Cluster({ONE: (2, 1), OTHER: (1, 2)}, brokers={1, 2, 3})
    executor = run(cluster, movement(ONE, (1, 2), (1, 3)), movement(OTHER, (1, 2), (2, 1)))
    assert cluster.replicas == {ONE: (1, 3), OTHER: (2, 1)}
    assert executor.skipped == {}


def test_a_broker_that_has_not_heard_of_the_end_of_a_move_is_asked_again() -> None:
    cluster = Cluster({ONE: (1, 2)}, brokers={1, 2})
    described = cluster.describe

    async def describe(wanted: Collection[Any], *, keys: Any = None) -> dict[Any, Any]:
        topics = await described(wanted, keys=keys)
        cluster.replicas[ONE] = (2,)
        return topics

    cluster.describe = describe  # type: ignore[method-assign]
    assert run(cluster, movement(ONE, (1,), (2,))).skipped == {}
    assert cluster.targets == []


def test_an_interrupted_move_is_throttled_when_it_is_resumed() -> None:
    cluster = Cluster({ONE: (2, 1)}, brokers={1, 2})
    cluster.moving[ONE] = OngoingReassignment((2, 1), adding=(2,), removing=(1,))
    run(cluster, movement(ONE, (1,), (2,)), throttle=1_000)
    throttles = {"leader.replication.throttled.replicas": "0:1", "follower.replication.throttled.replicas": "0:2"}
    assert cluster.throttled[0] == throttles
    assert cluster.replicas == {ONE: (2,)}


class Complaining:
    def complaint(self) -> str | None:
        return "It is too slow."


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (None, "Step 1 was taken back: 2 partitions keep their replicas, and the steps before are done."),
        (
            ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
            "Step 1 was taken back: 1 partitions had moved already, 1 partitions keep their replicas, "
            "and the steps before are done.",
        ),
        (
            ErrorCode.NOT_CONTROLLER,
            "Step 1 was not taken back as a whole: 1 partitions still move (t-0: NOT_CONTROLLER), "
            "1 partitions keep their replicas, and the steps before are done.",
        ),
    ],
)
def test_what_has_become_of_a_step_is_told(code: ErrorCode | None, told: str) -> None:
    cluster = Cluster({ONE: (1,), OTHER: (1,)}, brokers={1, 2})
    ongoing = OngoingReassignment((2, 1), adding=(2,), removing=(1,))

    def begin() -> None:
        cluster.moving = {ONE: ongoing, OTHER: ongoing}
        cluster.refusals = {} if code is None else {ONE: KafkaError(code)}

    cluster.after_reassignment = begin
    with pytest.raises(ProducersSuffer) as raised:
        run(cluster, movement(ONE, (1,), (2,)), movement(OTHER, (1,), (2,)), guard=Complaining())
    assert str(raised.value) == f"It is too slow. {told}"
    assert cluster.targets[-1] == {ONE: None, OTHER: None}


@pytest.mark.parametrize("refusal", [None, ErrorCode.NOT_CONTROLLER])
def test_replicas_that_still_move_after_an_interruption_stay_throttled(refusal: ErrorCode | None) -> None:
    cluster = Cluster({ONE: (1,)}, brokers={1, 2})
    cleared: list[str] = []

    def begin() -> None:
        cluster.moving = {ONE: OngoingReassignment((2, 1), adding=(2,), removing=(1,))}
        cluster.refusals = {} if refusal is None else {ONE: KafkaError(refusal)}

    async def clear_throttles(_: object, topics: Sequence[str]) -> bool:
        cleared.extend(topics)
        return True

    cluster.after_reassignment = begin

    async def interrupted() -> None:
        waits = asyncio.Event()
        guard = None if refusal is None else Complaining()
        executor = Executor(cluster, throttle=1_000, guard=guard, on_step=lambda *_: waits.set())  # type: ignore[arg-type]
        running = asyncio.create_task(executor.run([Step((movement(ONE, (1,), (2,)),))]))
        await waits.wait()
        if refusal is None:
            # As with Ctrl-C.
            running.cancel()
        with pytest.raises((asyncio.CancelledError, ProducersSuffer)):
            await running
        assert (cleared, executor.leaves_throttles) == ([], True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execute, "clear_throttles", clear_throttles)
        asyncio.run(interrupted())
        cluster.after_reassignment = lambda: None
        executor = run(cluster, movement(ONE, (1,), (2,)), throttle=1_000)
        assert (cleared, executor.leaves_throttles, cluster.replicas) == (["t"], False, {ONE: (2,)})


class Throttles:
    """Replaces `clear_throttles`, and remembers the topics."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cleared: list[str] = []
        monkeypatch.setattr(execute, "clear_throttles", self.clear)

    async def clear(self, _: object, topics: Sequence[str]) -> bool:
        self.cleared += topics
        return True


@pytest.mark.parametrize("error", [None, ClientError("No answer in time."), KafkaError(ErrorCode.REQUEST_TIMED_OUT)])
def test_throttles_stay_if_the_moves_may_begin_later(error: Exception | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The request for the moves is on its way when the run ends, so no replica moves yet."""
    throttles = Throttles(monkeypatch)
    cluster = Cluster({ONE: (1,)}, brokers={1, 2})
    executor = Executor(cluster, throttle=1_000, guard=None, on_step=lambda *_: None)  # type: ignore[arg-type]

    async def interrupted() -> None:
        is_sent = asyncio.Event()

        async def reassign(_: object) -> dict[TopicPartition, KafkaError | None]:
            is_sent.set()
            if error is not None:
                raise error
            await asyncio.Event().wait()
            return {}

        monkeypatch.setattr(cluster, "reassign", reassign)
        running = asyncio.create_task(executor.run([Step((movement(ONE, (1,), (2,)),))]))
        await is_sent.wait()
        if error is None:
            # As with Ctrl-C.
            running.cancel()
        with pytest.raises((asyncio.CancelledError, ClientError, KafkaError)):
            await running

    asyncio.run(interrupted())
    assert (throttles.cleared, executor.leaves_throttles) == ([], True)


def test_throttles_are_cleared_if_the_moves_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    throttles = Throttles(monkeypatch)
    cluster = Cluster({ONE: (1,)}, brokers={1, 2})

    async def refuse(_: object) -> dict[TopicPartition, KafkaError | None]:
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    monkeypatch.setattr(cluster, "reassign", refuse)
    executor = Executor(cluster, throttle=1_000, guard=None, on_step=lambda *_: None)  # type: ignore[arg-type]
    with pytest.raises(KafkaError):
        asyncio.run(executor.run([Step((movement(ONE, (1,), (2,)),))]))
    assert (throttles.cleared, executor.leaves_throttles) == (["t"], False)


@pytest.mark.parametrize("fails", ["reassignments", "clear_throttles"])
def test_the_error_that_ended_the_run_is_raised_even_if_the_throttles_cannot_be_cleared(
    fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster({ONE: (1,)}, brokers={1, 2})
    executor = Executor(cluster, throttle=1_000, guard=None, on_step=lambda *_: None)  # type: ignore[arg-type]

    async def fail(*_: object) -> None:
        raise ClientError("No broker answers.")

    async def elect(*_: object) -> None:
        monkeypatch.setattr(cluster if fails == "reassignments" else execute, fails, fail)
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)

    monkeypatch.setattr(executor, "_elect", elect)
    with pytest.raises(KafkaError) as raised:
        asyncio.run(executor.run([Step((movement(ONE, (1,), (2,)),))]))
    assert raised.value.code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert executor.leaves_throttles


def test_a_move_that_something_else_has_cancelled_is_told() -> None:
    cluster = Cluster({ONE: (1,), OTHER: (1,)}, brokers={1, 2})

    def cancel() -> None:
        cluster.replicas[ONE] = (1,)

    cluster.after_reassignment = cancel
    executor = run(cluster, movement(ONE, (1,), (2,)), movement(OTHER, (1,), (2,)))
    assert executor.skipped == {ONE: "its move was cancelled or replaced; its replicas are (1)"}


def test_a_broker_that_is_late_does_not_make_a_finished_move_a_cancelled_one() -> None:
    cluster = Cluster({ONE: (1,)}, brokers={1, 2})
    describe = cluster.describe
    late_answers = 10

    async def describe_late(wanted: Collection[Any], *, keys: Any = None) -> dict[Any, Any]:
        nonlocal late_answers
        topics = await describe(wanted, keys=keys)
        if cluster.targets and late_answers:
            late_answers -= 1
            # The replicas during the move.
            topics["t"].partitions[0].replicas = (2, 1)
        return topics

    cluster.describe = describe_late  # type: ignore[method-assign]
    executor = run(cluster, movement(ONE, (1,), (2,)))
    assert (late_answers, executor.skipped) == (0, {})
