"""Replicas of simulated clusters are moved: hard goals hold at every step, whatever kills the planner."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Protocol

import pytest

from ottla.balance.anomalies import Anomaly, AnomalyDetector
from ottla.balance.bound import lower_bound_bytes
from ottla.balance.execute import ProducersSuffer
from ottla.balance.goals import default_goals
from ottla.balance.observe import observe
from ottla.balance.steps import make_steps
from ottla.client.admin import AdminClient
from ottla.client.admin.configs import ConfigResource, ResourceType
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition
from tests.sim import balance
from tests.sim.balance import Balancer, Load, StepWatch, World, with_room

SEEDS = 4
SEEDS_MANY = 100
KILLS_MAX = 6

seeds = pytest.mark.parametrize(
    "seed", [*range(SEEDS), *(pytest.param(seed, marks=pytest.mark.faults) for seed in range(SEEDS, SEEDS_MANY))]
)


class Worlds(Protocol):
    def __call__(self, seed: int, *, nodes: int, racks: int = 1) -> World: ...


@pytest.fixture
def worlds() -> Iterator[Worlds]:
    created: list[World] = []

    def make(seed: int, *, nodes: int, racks: int = 1) -> World:
        created.append(World(seed, nodes=nodes, racks=racks))
        return created[-1]

    yield make
    for world in created:
        world.close()


@seeds
def test_a_plan_is_executed_whatever_kills_the_planner(seed: int, worlds: Worlds, tmp_path: Path) -> None:
    world = worlds(seed, nodes=4 + seed % 3, racks=1 + seed % 4)
    random = world.random
    factor = random.randint(1, 3)
    world.fill(topics=3, partitions=8, factor=factor)
    drained = random.choice((None, 2, 3))
    room = random.uniform(1.3, 2.5)
    balancer = Balancer(
        world,
        tmp_path / "journal.json",
        change=lambda state: with_room(state, room, drained=drained),
        throttle=random.choice((None, 2_000, 20_000)),
    )
    watches: list[StepWatch] = []
    balancer.on_plan = lambda state: watches.append(StepWatch(world, state))
    load = Load(world, sorted(world.replicas()))
    balancer.run_with_kills(random.randint(0, KILLS_MAX))
    load.check()
    (watch,) = watches
    assert balancer.state is not None
    assert balancer.plan is not None
    assert balancer.steps is not None
    expected = balancer.expected()
    assert {place: brokers for place, brokers in world.replicas().items() if place in expected} == expected
    if drained is not None and not balancer.plan.stranded and not balancer.steps.postponed:
        assert all(drained not in replicas for replicas in expected.values())
    # Nothing was copied twice, and little more than any plan has to copy.
    moved = sum(step.size_bytes for step in balancer.steps.steps)
    assert watch.copied_bytes == pytest.approx(moved)
    largest = max(partition.size_bytes for partition in balancer.state.partitions.values())
    assert balancer.plan.size_bytes <= 1.2 * lower_bound_bytes(balancer.state, default_goals()) + 2 * largest
    world.do("looks for throttles", no_throttles)


def test_the_watch_bites(worlds: Worlds, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan whose steps are not cut copies too much at the same time, and fills disks beyond their limit."""
    monkeypatch.setattr(balance, "make_steps", partial(make_steps, copies_max=1_000))
    world = worlds(0, nodes=4)
    world.fill(topics=3, partitions=8, factor=2)
    balancer = Balancer(
        world, tmp_path / "journal.json", change=lambda state: with_room(state, 3.0, drained=2), throttle=2_000
    )
    balancer.on_plan = lambda state: StepWatch(world, state)
    with pytest.raises(AssertionError, match=r"Counter\("):
        balancer.run_with_kills(0)


@seeds
def test_replicas_of_a_lost_broker_are_made_again(seed: int, worlds: Worlds, tmp_path: Path) -> None:
    world = worlds(seed, nodes=4 + seed % 3)
    factor = world.random.randint(2, 3)
    world.fill(topics=3, partitions=8, factor=factor)
    load = Load(world, sorted(world.replicas()))
    world.run(world.random.uniform(0.1, 2.0))
    holders = {broker for replicas in world.replicas().values() for broker in replicas}
    lost = world.random.choice(sorted(holders - {1}))
    world.lose(lost)
    due: list[Anomaly] = []

    async def watch(cluster: Cluster) -> None:
        """As `ottla balance watch` does."""
        admin, detector = AdminClient(cluster), AnomalyDetector(dead_after_seconds=10.0)
        while not due:
            await asyncio.sleep(1.0)
            with contextlib.suppress(ClientError, KafkaError):
                anomalies = detector.look(await observe(admin), {}, asyncio.get_running_loop().time())
                due.extend(anomaly for anomaly in anomalies if anomaly.is_due and anomaly.kind == "dead")

    world.do("watch", watch)
    assert due[0].broker_id == lost
    balancer = Balancer(
        world,
        tmp_path / "journal.json",
        change=lambda state: with_room(state, 3.0),
        throttle=world.random.choice((None, 20_000)),
    )
    watches: list[StepWatch] = []
    balancer.on_plan = lambda state: watches.append(StepWatch(world, state, has_faults=True))
    balancer.run_with_kills(world.random.randint(0, 3))
    assert balancer.plan is not None
    assert not balancer.plan.stranded
    load.check()
    rows = [row for topic in world.image.topics.by_id.values() for row in topic.partitions.values()]
    assert rows
    for row in rows:
        assert lost not in row.replicas
        assert set(row.isr) == set(row.replicas)
        assert len(row.replicas) >= factor


def test_a_step_is_taken_back_while_producers_suffer(worlds: Worlds, tmp_path: Path) -> None:
    world = worlds(7, nodes=4)
    world.fill(topics=3, partitions=8, factor=2)
    before = world.replicas()
    balancer = Balancer(
        world,
        tmp_path / "journal.json",
        change=lambda state: with_room(state, 3.0, drained=2),
        throttle=500,
        is_guarded=True,
    )
    load = Load(world, sorted(before))
    program = balancer.start()
    # The guard measures the usual latency first; then the step begins.
    assert world.run(60, lambda: bool(moving(world)))
    world.slow_down((200_000, 400_000))
    assert world.run(120, lambda: program.is_done)
    assert isinstance(program.failure, ProducersSuffer)
    assert "was taken back" in str(program.failure)
    world.cluster.network.heal()
    assert not moving(world)
    # Small partitions of the step may have been copied before; all others are where they were.
    planned = balancer.expected()
    now = {place: brokers for place, brokers in world.replicas().items() if place in before}
    back = [place for place, brokers in now.items() if set(brokers) == set(before[place])]
    assert all(set(brokers) == set(planned[place]) for place, brokers in now.items() if place not in back)
    assert [place for place in back if set(planned[place]) != set(before[place])]
    world.do("looks for throttles", no_throttles)
    balancer.lift_throttle()
    world.finish(balancer.start())
    load.check()
    expected = balancer.expected()
    assert {place: brokers for place, brokers in world.replicas().items() if place in expected} == expected
    # The guard's own topic is not on the broker that is emptied, either.
    assert len(world.replicas()) > len(expected)
    assert all(2 not in replicas for replicas in world.replicas().values())


def moving(world: World) -> list[TopicPartition]:
    return [
        TopicPartition(topic.name, number)
        for topic in world.image.topics.by_id.values()
        for number, row in topic.partitions.items()
        if row.adding_replicas or row.removing_replicas
    ]


async def no_throttles(cluster: Cluster) -> None:
    """A planner that was killed leaves no throttles behind once its plan is done."""
    admin = AdminClient(cluster)
    names = [ConfigResource(ResourceType.TOPIC, name) for name in await admin.topics.names(internal=False)]
    brokers = [
        ConfigResource(ResourceType.BROKER, str(broker.node_id)) for broker in (await admin.cluster.describe()).brokers
    ]
    for resource, entries in (await admin.configs.describe([*names, *brokers])).items():
        assert not isinstance(entries, KafkaError)
        throttles = [
            entry for entry in entries if "throttled" in entry.name and entry.source.name.startswith("DYNAMIC")
        ]
        assert not throttles, (resource, throttles)
