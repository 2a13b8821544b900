"""Random stories of three voters with real logs: kills, power cuts, full disks, cut lines, snapshots, tiny segments.

Entries that were reported committed are in every node's log or snapshot once all nodes run again, in one order,
and all of them come back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any

import pytest

from ottla.model.deferred import Deferred
from ottla.model.ids import Uuid
from ottla.model.ports import Files, Lane, Scheduler, World
from ottla.quorum.local_log import MetadataLogSettings
from ottla.quorum.raft_node import RaftNode, RaftNodeSettings
from ottla.quorum.voter_log import VoterLog
from ottla.sim.disk import Directory, SimDisk
from ottla.sim.files import SimFiles
from ottla.sim.kernel import Kernel
from tests.support.files import MemoryFiles
from tests.unit.quorum.test_raft_nodes import Quorum, endpoint, peers_of

SETTINGS = MetadataLogSettings(segment_bytes=200, retention_bytes=600)
STEPS = 60


class SlowWorkers:
    """One process's worker: it takes a while, one thing after the other, and ends with the process."""

    def __init__(self, scheduler: Scheduler, chance: Random) -> None:
        self._scheduler = scheduler
        self._chance = chance
        self._tasks: deque[tuple[Callable[..., Any], tuple[Any, ...], Deferred[Any]]] = deque()
        self.is_gone = False

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
        deferred: Deferred[Any] = Deferred()
        self._tasks.append((function, arguments, deferred))
        if len(self._tasks) == 1:
            self._plan()
        return deferred

    def lane(self, _lane: Lane) -> SlowWorkers:
        return self

    def _plan(self) -> None:
        self._scheduler.call_later(self._chance.choice((0, 0.001, 0.005, 0.05)), self._run)

    def _run(self) -> None:
        if self.is_gone:
            return
        function, arguments, deferred = self._tasks.popleft()
        if self._tasks:
            self._plan()
        try:
            value = function(*arguments)
        except OSError as error:
            deferred.fail(error)
        else:
            deferred.resolve(value)


class Disk:
    """The disk of a node, which fills up byte by byte and at a power cut loses exactly what was not synced."""

    def __init__(self, node_id: int) -> None:
        self.memory = MemoryFiles()
        self.memory.make_directories(f"/{node_id}")

    def files(self) -> Files:
        return self.memory

    def lose_power(self) -> None:
        self.memory.lose_unsynced()

    def fill_up(self, spare_bytes: int) -> None:
        self.memory.capacity_bytes = self.memory.used_bytes() + spare_bytes

    def heal(self) -> None:
        self.memory.capacity_bytes = None


class DiskThatLosesNames(Disk):
    """At a power cut it also loses names whose directory was not synced, and keeps any part of what was not."""

    def __init__(self, node_id: int) -> None:
        self.sim = SimDisk(Random(node_id))
        self.sim.root.change((str(node_id), Directory()))
        self.sim.root.sync()

    def files(self) -> Files:
        return SimFiles(Kernel(0), self.sim)

    def lose_power(self) -> None:
        self.sim.lose_power()

    def fill_up(self, spare_bytes: int) -> None:
        del spare_bytes
        self.sim.is_full = True

    def heal(self) -> None:
        self.sim.heal()


class Story(Quorum):
    """Each node has a disk of its own; a snapshot holds all values that it covers."""

    def __init__(self, seed: int, kind: type[Disk]) -> None:
        self.disks = {node_id: kind(node_id) for node_id in (1, 2, 3)}
        self.chance = Random(seed)
        self.workers: dict[int, SlowWorkers] = {}
        self.number = 0
        self.committed: list[bytes] = []
        self.steps: list[str] = []
        super().__init__(3, seed=seed)

    def start(self, node_id: int) -> RaftNode:
        virtual = self.virtual
        workers = SlowWorkers(virtual.scheduler, self.chance)
        world = World(
            clock=virtual.clock,
            scheduler=virtual.scheduler,
            workers=workers,
            files=self.disks[node_id].files(),
            random=virtual.random,
        )
        log = VoterLog.open(
            world=world,
            metadata_log_dir=f"/{node_id}",
            node_id=node_id,
            directory_id=Uuid(bytes([node_id]) * 16),
            configured_voters=self.voters,
            settings=SETTINGS,
        )
        settings = RaftNodeSettings(listeners=(("C", endpoint(node_id)),), snapshot_bytes_max=400)
        replica = RaftNode(world=world, log=log, cluster_id="ours", peers=peers_of(self, node_id), settings=settings)
        replica.on_fatal = lambda _: self.end(node_id, replica)
        self.replicas[node_id] = replica
        self.workers[node_id] = workers
        replica.start()
        return replica

    def end(self, node_id: int, replica: RaftNode) -> None:
        """The process is gone, and nothing was closed in good order."""
        if self.replicas.get(node_id) is replica:
            del self.replicas[node_id]
        self.workers[node_id].is_gone = True
        replica.close()

    # -- what happens -------------------------------------------------------------------------------------------------

    def write(self) -> None:
        for replica in self.replicas.values():
            if replica.is_leading:
                self.number += 1
                value = b"%d" % self.number
                replica.log.append([value]).when_done(partial(self._on_appended, value))

    def _on_appended(self, value: bytes, done: Deferred[int]) -> None:
        if done.error is None:
            self.committed.append(value)

    def kill(self) -> None:
        if self.replicas:
            node_id = self.chance.choice(sorted(self.replicas))
            self.end(node_id, self.replicas[node_id])
            if self.chance.random() < 0.5:
                self.disks[node_id].lose_power()

    def revive(self) -> None:
        for node_id in sorted({1, 2, 3} - self.replicas.keys()):
            with suppress(OSError):
                self.start(node_id)

    def cut(self) -> None:
        self.cut_off = {self.chance.randint(1, 3)}

    def heal(self) -> None:
        self.cut_off = set()
        for disk in self.disks.values():
            disk.heal()

    def fill_disk(self) -> None:
        self.disks[self.chance.randint(1, 3)].fill_up(self.chance.randint(0, 150))

    def snapshot(self) -> None:
        for replica in self.replicas.values():
            log = replica.log
            end_offset = log.known_committed_offset
            newest = log.snapshots()[-1:]
            if end_offset > (newest[0].end_offset if newest else 0):
                *_, last = (committed_batch for committed_batch in log.committed_batches(end_offset - 1))
                log.write_snapshot(
                    end_offset=end_offset, epoch=last.epoch, values=state_of(log), last_contained_timestamp_ms=0
                )

    def step(self) -> None:
        action = self.chance.choice(
            [self.write] * 8 + [self.kill, self.revive, self.cut, self.heal, self.fill_disk, self.snapshot]
        )
        self.steps.append(action.__name__)
        action()
        self.run(self.chance.choice((0, 1, 5, 50, 700, 3000)))
        for node in self.replicas.values():
            node.invariants()


def state_of(log: VoterLog) -> list[bytes]:
    snapshot = log.latest_snapshot()
    state = [] if snapshot is None else [bytes(value) for value in snapshot[1].values]
    from_offset = 0 if snapshot is None else snapshot[0].end_offset
    return state + [bytes(value) for batch in log.committed_batches(from_offset) for value in batch.values]


@pytest.mark.parametrize(
    ("seed", "kind"),
    [*((seed, Disk) for seed in (*range(6), 56, 90)), *((seed, DiskThatLosesNames) for seed in range(6))],
)
def test_all_come_back_and_nothing_that_was_committed_is_lost(seed: int, kind: type[Disk]) -> None:
    story = Story(seed, kind)
    story.run(1000)
    for _ in range(STEPS):
        story.step()
    story.heal()
    story.revive()
    story.run(20_000)
    story.write()
    story.run(2000)
    states = {node_id: state_of(replica.log) for node_id, replica in story.replicas.items()}
    assert states[1] == states[2] == states[3], story.steps
    assert set(story.committed) <= set(states[1]), story.steps
    assert story.committed[-1:] == [b"%d" % story.number]
    assert [value for value in states[1] if value in story.committed] == story.committed
