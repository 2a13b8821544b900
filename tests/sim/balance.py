"""Clusters on virtual time whose replicas `ottla.balance` moves: programs that are killed, and a watch over every step.

The planner, the executor, the journal and the client are the real ones; so are the nodes.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ottla.balance.assignment import Assignment
from ottla.balance.execute import Executor, Guard
from ottla.balance.goals import CapacityGoal, RackGoal
from ottla.balance.guard import LatencyGuard
from ottla.balance.journal import Journal
from ottla.balance.metrics import DISK
from ottla.balance.observe import observe
from ottla.balance.planner import Plan, make_plan
from ottla.balance.state import ClusterState
from ottla.balance.steps import COPIES_MAX, Steps, make_steps
from ottla.client.admin import AdminClient
from ottla.client.admin.topics import NewTopic
from ottla.client.cluster import Cluster
from ottla.client.consumer import Consumer, ConsumerSettings
from ottla.client.errors import ClientError
from ottla.client.producer import Producer, ProducerSettings
from ottla.client.settings import ClientSettings
from ottla.metadata.image import MetadataImage
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition
from ottla.sim.cluster import ClusterLayout, SimCluster
from ottla.sim.event_loop import SimEventLoop
from ottla.sim.kernel import SECOND_US, Kernel
from ottla.sim.process import Process

__all__ = ["Balancer", "Load", "Program", "StepWatch", "World"]

START_SECONDS_MAX = 120
# A throttled run of a plan takes virtual minutes.
RUN_SECONDS_MAX = 3_600
SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    # Clients of this process use the clock of the machine, and nodes the clock of the simulation.
    "log.message.timestamp.after.max.ms": "9223372036854775807",
    # A throttle lets the first fetch pass: a replica needs several, so that a throttled move takes its time.
    "replica.fetch.max.bytes": "2048",
    "replica.fetch.response.max.bytes": "4096",
}


class Program:
    """A process with an event loop of its own, on a host of its own."""

    def __init__(self, world: World, name: str, main: Callable[[Cluster], Coroutine[Any, Any, None]]) -> None:
        self._world = world
        self._process = Process(world.kernel, name, on_defect=world.cluster.report_defect)
        host = f"10.0.1.{world.next_host()}"
        # asyncio declares more methods than a client needs.
        self._loop = SimEventLoop(  # type: ignore[abstract]
            world.cluster.network, self._process, host=host, on_defect=world.cluster.report_defect
        )
        self.failure: BaseException | None = None
        self._task = self._loop.create_task(self._run(main, name))

    async def _run(self, main: Callable[[Cluster], Coroutine[Any, Any, None]], name: str) -> None:
        settings = ClientSettings(
            bootstrap_servers=tuple(self._world.cluster.endpoints),
            client_id=name,
            request_timeout_ms=5_000,
            api_timeout_ms=20_000,
            metadata_age_max_ms=5_000,
        )
        cluster = Cluster(settings, generator=self._world.kernel.random_for(name))
        try:
            await main(cluster)
        except Exception as error:  # noqa: BLE001 - the test looks at it
            self.failure = error
        # Not in `finally`: a process that was killed closes nothing.
        await cluster.close()

    @property
    def is_done(self) -> bool:
        return self._task.done()

    def kill(self) -> None:
        self._process.end()
        self._world.cluster.network.end_process(self._process, notifies_peers=True)

    def close(self) -> None:
        self._process.end()
        self._loop.abandon()


class World:
    """A cluster in racks. Node 1 is the controller, and lives."""

    def __init__(self, seed: int, *, nodes: int, racks: int) -> None:
        self.kernel = Kernel(seed)
        self.random = self.kernel.random_for("the world")
        self.cluster = SimCluster(self.kernel, ClusterLayout(nodes=nodes, controllers=1, settings=SETTINGS))
        self._programs: list[Program] = []
        self._hosts = 0
        # Called after every event.
        self.watch: Callable[[], object] | None = None
        for node_id, node in self.cluster.nodes.items():
            if racks > 1:
                node.properties["broker.rack"] = f"r{node_id % racks}"
        self.cluster.start()
        assert self.kernel.run_until(START_SECONDS_MAX * SECOND_US, lambda: self.cluster.all_serve)

    def next_host(self) -> int:
        self._hosts += 1
        return self._hosts

    def program(self, name: str, main: Callable[[Cluster], Coroutine[Any, Any, None]]) -> Program:
        started = Program(self, name, main)
        self._programs.append(started)
        return started

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Runs events. False if the time was over before `until`."""

        def after_event() -> bool:
            if self.watch is not None:
                self.watch()
            return until()

        return self.kernel.run_until(self.kernel.now_us + round(seconds * SECOND_US), after_event)

    def finish(self, program: Program, seconds: float = RUN_SECONDS_MAX) -> None:
        """Runs until the program has ended, which must be without an error."""
        assert self.run(seconds, lambda: program.is_done), "the program has not ended"
        if program.failure is not None:
            raise program.failure

    def do(self, name: str, main: Callable[[Cluster], Coroutine[Any, Any, None]]) -> None:
        self.finish(self.program(name, main))

    @property
    def image(self) -> MetadataImage:
        broker = self.cluster.nodes[1].broker
        assert broker is not None
        return broker.metadata.image

    def replicas(self) -> dict[TopicPartition, tuple[int, ...]]:
        return {
            TopicPartition(topic.name, number): row.replicas
            for topic in self.image.topics.by_id.values()
            for number, row in topic.partitions.items()
        }

    def close(self) -> None:
        for program in self._programs:
            program.close()
        findings = self.cluster.findings
        assert not findings, findings

    # Contents of clusters.

    def fill(self, *, topics: int, partitions: int, factor: int) -> None:
        """Topics whose replicas are placed without care, with records of all sizes."""
        random = self.random
        nodes = sorted(self.cluster.nodes)
        favourites = random.sample(nodes, max(factor, len(nodes) // 2))
        assignments = {
            f"t{topic}": {
                number: random.sample(favourites if random.random() < 0.6 else nodes, factor)
                for number in range(partitions)
            }
            for topic in range(topics)
        }

        async def work(cluster: Cluster) -> None:
            admin = AdminClient(cluster)
            await admin.topics.create(
                [NewTopic(name=name, assignment=replicas) for name, replicas in assignments.items()]
            )
            async with Producer(cluster, ProducerSettings(linger_ms=0)) as producer:
                for name, replicas in assignments.items():
                    for number in replicas:
                        for _ in range(random.randint(1, 12)):
                            await producer.send_and_wait(name, bytes(random.randint(10, 900)), partition=number)

        self.do("filler", work)

    def lose(self, node_id: int) -> None:
        """The node dies and is not started again."""
        self.cluster.restart_seconds = (float(START_SECONDS_MAX * RUN_SECONDS_MAX),) * 2
        self.cluster.nodes[node_id].kill()

    def slow_down(self, delay_us: tuple[int, int]) -> None:
        for source, target in self.cluster.network.pairs():
            self.cluster.network.link(source, target).delay_us = delay_us


class Load:
    """A producer that writes all the time, with acks=all, and the acknowledgements that it got."""

    def __init__(self, world: World, partitions: list[TopicPartition]) -> None:
        self._world = world
        self._partitions = partitions
        self._is_over = False
        self.acknowledged: list[tuple[TopicPartition, bytes]] = []
        self._program = world.program("load", self._main)

    async def _main(self, cluster: Cluster) -> None:
        random = self._world.kernel.random_for("load, choices")
        async with Producer(cluster, ProducerSettings(linger_ms=0, delivery_timeout_ms=60_000)) as producer:
            number = 0
            while not self._is_over:
                number += 1
                place, value = random.choice(self._partitions), b"load %d" % number
                try:
                    await producer.send_and_wait(place.topic, value, partition=place.partition)
                except (ClientError, KafkaError):
                    continue
                self.acknowledged.append((place, value))
                await asyncio.sleep(random.uniform(0, 0.2))

    def check(self) -> None:
        """Ends the load: every acknowledged record exists exactly once."""
        self._is_over = True
        self._world.finish(self._program)
        copies: Counter[tuple[TopicPartition, bytes]] = Counter()

        async def read(cluster: Cluster) -> None:
            ends = await AdminClient(cluster).offsets.numbers(self._partitions, -1)
            async with Consumer(cluster, ConsumerSettings(auto_commit=False)) as consumer:
                await consumer.assign(self._partitions)
                await consumer.seek_to_beginning()
                while any(consumer.position(place) < end for place, end in ends.items()):
                    for record in await consumer.poll(1_000):
                        copies[TopicPartition(record.topic, record.partition), record.value or b""] += 1

        self._world.do("reader", read)
        assert self.acknowledged
        assert all(copies[sent] == 1 for sent in self.acknowledged)


class StepWatch:
    """Looks at every change of the metadata: no hard goal is violated that was not violated before the plan."""

    def __init__(self, world: World, state: ClusterState, *, has_faults: bool = False) -> None:
        self._world = world
        self._state = state
        self._has_faults = has_faults
        self._before = Assignment(state)
        self._rack, self._disk = RackGoal(), CapacityGoal(DISK)
        self._rack.prepare(self._before)
        self._seen: MetadataImage | None = None
        self._copying: set[tuple[TopicPartition, int]] = set()
        self.changes = 0
        self.copied_bytes = 0.0
        world.watch = self.look

    def look(self) -> None:
        image = self._world.image
        if image is not self._seen:
            self._seen = image
            self.changes += 1
            self._check(image)

    def _check(self, image: MetadataImage) -> None:
        state = self._state
        disk: Counter[int] = Counter()
        copying: set[tuple[TopicPartition, int]] = set()
        for topic in image.topics.by_id.values():
            for number, row in topic.partitions.items():
                place = TopicPartition(topic.name, number)
                partition = state.partitions.get(place)
                if partition is None:
                    continue
                disk.update({broker: round(partition.size_bytes) for broker in row.replicas})
                copying |= {(place, broker) for broker in row.adding_replicas}
                if not self._has_faults:
                    assert len(row.isr) >= len(partition.replicas), f"{place} has lost a replica: {row}"
                if not row.adding_replicas and not row.removing_replicas:
                    self._check_racks(place, row.replicas)
        for broker, load in disk.items():
            most = max(self._disk.limit(self._before, broker), self._before.loads[broker].disk)
            assert load <= most + len(state.partitions), f"broker {broker} has {load} of at most {most} bytes"
        counts = Counter(broker for _, broker in copying)
        assert all(count <= COPIES_MAX for count in counts.values()), counts
        self.copied_bytes += sum(state.partitions[place].size_bytes for place, _ in copying - self._copying)
        self._copying = copying

    def _check_racks(self, place: TopicPartition, replicas: tuple[int, ...]) -> None:
        racks = Counter(rack for broker in replicas if (rack := self._state.brokers[broker].rack) is not None)
        before = self._before.racks(place)
        most = max([self._rack.limit(self._before, place), *before.values()])
        assert all(count <= most for count in racks.values()), f"{place} on {replicas}: {racks}"


class Balancer:
    """The command: makes a plan or continues it, step by step. The process may be killed at any time."""

    def __init__(
        self,
        world: World,
        path: Path,
        *,
        change: Callable[[ClusterState], ClusterState],
        throttle: int | None,
        is_guarded: bool = False,
    ) -> None:
        self._world = world
        self._path = path
        self._change = change
        self._throttle = throttle
        self._is_guarded = is_guarded
        self.lives = 0
        self.state: ClusterState | None = None
        self.plan: Plan | None = None
        self.steps: Steps | None = None
        # Called once, when the plan is made and nothing has moved.
        self.on_plan: Callable[[ClusterState], object] = lambda _: None

    def start(self) -> Program:
        self.lives += 1
        return self._world.program(f"balancer, life {self.lives}", self._main)

    async def _main(self, cluster: Cluster) -> None:
        admin = AdminClient(cluster)
        if self.steps is None:
            self.state = self._change(await observe(admin))
            self.plan = make_plan(self.state)
            self.steps = make_steps(self.state, self.plan.movements)
            drained = [broker_id for broker_id, broker in self.state.brokers.items() if broker.is_draining]
            Journal(self._path, "simulated", self.steps.steps, self._throttle, drained=drained).write()
            self.on_plan(self.state)
        journal = Journal.read(self._path)
        if self._is_guarded:
            clock = asyncio.get_running_loop().time
            async with LatencyGuard(cluster, clock=clock, without=journal.drained) as guard:
                await self._execute(admin, journal, guard)
        else:
            await self._execute(admin, journal, None)
        journal.remove()

    def lift_throttle(self) -> None:
        journal = Journal.read(self._path)
        Journal(self._path, journal.cluster_id, journal.steps, None, drained=journal.drained).write()

    async def _execute(self, admin: AdminClient, journal: Journal, guard: Guard | None) -> None:
        await Executor(admin, throttle=journal.throttle, guard=guard, on_step=lambda *_: None).run(journal.steps)

    def run_with_kills(self, kills: int) -> None:
        """Runs to the end; the first lives are short."""
        random = self._world.kernel.random_for("kills")
        for _ in range(kills):
            program = self.start()
            seconds = random.choice((0.05, 0.5, 3.0, 10.0)) * random.random()
            if self._world.run(seconds, partial(_is_done, program)):
                break
            program.kill()
        if self._path.exists() or self.steps is None:
            self._world.finish(self.start())

    def expected(self) -> Mapping[TopicPartition, tuple[int, ...]]:
        """The replicas after the plan."""
        assert self.state is not None
        assert self.steps is not None
        replicas = {place: partition.replicas for place, partition in self.state.partitions.items()}
        for step in self.steps.steps:
            replicas |= {movement.partition: movement.after for movement in step.movements}
        return replicas


def _is_done(program: Program) -> bool:
    return program.is_done


def with_room(state: ClusterState, factor: float, *, drained: int | None = None) -> ClusterState:
    """The state with disks that are `factor` times what all brokers need on average, and an emptied broker."""
    total = sum(partition.size_bytes * len(partition.replicas) for partition in state.partitions.values())
    largest = max(partition.size_bytes for partition in state.partitions.values())
    room = total / max(len(state.brokers) - 1, 1) * factor / 0.8 + 3 * largest
    brokers = {
        broker_id: replace(broker, disk_bytes=room, is_draining=broker_id == drained)
        for broker_id, broker in state.brokers.items()
    }
    return ClusterState(brokers=brokers, partitions=state.partitions)
