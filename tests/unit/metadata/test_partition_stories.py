"""Random stories of one partition: brokers fall silent, crash, leave and come back; it is moved, and moved back.

With eligible leader replicas (KIP-966) every leader has all acknowledged records, unless the election is unclean.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ottla.metadata.controller.features import UpgradeType
from ottla.model.errors import ErrorCode
from ottla.wire.messages.create_topics import CreatableReplicaAssignment
from tests.unit.metadata.harness import ControllerHarness, done
from tests.unit.metadata.test_controller_elections import ELR, update
from tests.unit.metadata.test_controller_reassignments import partition, reassign, report_isr

BROKERS = (1, 2, 3, 4)
STEPS = 80


class Story:
    """`held` is how many of the acknowledged records each broker has."""

    def __init__(self, seed: int, *, elr: bool) -> None:
        self.chance = Random(seed)
        self.harness = ControllerHarness(properties={"min.insync.replicas": "2"})
        for broker_id in BROKERS:
            self.harness.add_broker(broker_id)
        if not elr:
            assert update(self.harness, (ELR, 0, UpgradeType.SAFE_DOWNGRADE)).error_code == ErrorCode.NONE
        assignment = CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2, 3])
        assert self.harness.create("t", -1, -1, assignments=[assignment]).error_code == ErrorCode.NONE
        self.elr = elr
        self.acknowledged = 0
        self.held = dict.fromkeys(BROKERS, 0)
        self.incarnations = dict.fromkeys(BROKERS, 1)
        self.down: dict[int, int] = {}
        self.steps: list[Any] = []

    # -- what happens -------------------------------------------------------------------------------------------------

    def produce(self) -> None:
        now = partition(self.harness)
        if now.leader >= 0 and len(now.isr) >= 2 and not set(now.isr) & self.down.keys():
            self.acknowledged += 1
            for broker_id in now.isr:
                self.held[broker_id] = self.acknowledged

    def shrink(self) -> None:
        now = partition(self.harness)
        if now.leader >= 0:
            others = [replica_id for replica_id in now.isr if replica_id == now.leader or self.chance.random() < 0.5]
            report_isr(self.harness, others)

    def expand(self) -> None:
        now = partition(self.harness)
        if now.leader < 0 or now.leader in self.down:
            return
        for broker_id in now.replicas:
            if broker_id not in self.down and broker_id not in now.isr:
                self.held[broker_id] = self.held[now.leader]
                if report_isr(self.harness, [*now.isr, broker_id]) is ErrorCode.NONE:
                    return

    def stop(self) -> None:
        """Silent until it is fenced, in good order, or with its newest records lost."""
        running = [broker for broker in BROKERS if broker not in self.down]
        if not running:
            return
        broker_id = self.chance.choice(running)
        epoch = self.harness.image.brokers[broker_id].broker_epoch
        kind = self.chance.choice(("clean", "crash", "leaves"))
        self.steps.append((kind, broker_id))
        if kind == "leaves":
            for _ in range(5):
                if self.harness.beat(broker_id, want_shut_down=True).should_shut_down:
                    break
        else:
            self.harness.virtual.clock.ms += 8000
            for running_id in running:
                if running_id != broker_id:
                    self.harness.beat(running_id)
            self.harness.virtual.clock.ms += 2000
            while done(self.harness.controller.fence_silent_brokers()):
                pass
        if kind == "crash" and not self.loses_everything(broker_id):
            self.held[broker_id] = self.chance.randint(0, self.held[broker_id])
            epoch = -1
        self.down[broker_id] = epoch

    def loses_everything(self, broker_id: int) -> bool:
        """True if no other broker has all acknowledged records, or without ELR: no rule can prevent the loss."""
        whole = [broker for broker in BROKERS if broker != broker_id and self.held[broker] == self.acknowledged]
        return not self.elr or not whole

    def come_back(self) -> None:
        if self.down:
            broker_id = self.chance.choice(sorted(self.down))
            self.incarnations[broker_id] += 1
            self.harness.controller.liveness.forget(broker_id)
            self.harness.add_broker(
                broker_id,
                incarnation=self.incarnations[broker_id],
                previous_broker_epoch=self.down.pop(broker_id),
            )

    def move(self) -> None:
        wanted = self.chance.choice(([1, 2, 3], [2, 3, 4], [4, 1], [1, 2, 3, 4], [3, 1, 2], None))
        before = set(partition(self.harness).replicas)
        reassign(self.harness, wanted)
        self.forget_removed(before)

    def forget_removed(self, before: set[int]) -> None:
        for broker_id in before - set(partition(self.harness).replicas):
            self.held[broker_id] = 0

    def step(self) -> None:
        action = self.chance.choice(
            [self.produce] * 3 + [self.shrink, self.expand, self.expand, self.stop, self.come_back, self.move]
        )
        self.steps.append(action.__name__)
        before = partition(self.harness)
        action()
        now = partition(self.harness)
        self.forget_removed(set(before.replicas))
        self.check(before, now)

    def check(self, before: Any, now: Any) -> None:
        assert set(now.isr) <= set(now.replicas), self.steps
        assert set(now.elr) <= set(now.replicas), self.steps
        assert not set(now.isr) & set(now.elr), self.steps
        assert now.leader == -1 or now.leader in now.isr, self.steps
        assert not set(now.adding_replicas) - set(now.replicas), self.steps
        assert not set(now.removing_replicas) - set(now.replicas), self.steps
        assert now.leader not in self.down, self.steps
        if now.leader != before.leader:
            assert now.leader_epoch > before.leader_epoch, self.steps
        if now.leader >= 0 and self.held[now.leader] < self.acknowledged:
            assert now.leader_recovery_state == 1, self.steps
            self.acknowledged = self.held[now.leader]
            self.held = {broker_id: min(count, self.acknowledged) for broker_id, count in self.held.items()}


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("elr", [True, False])
def test_every_leader_has_all_acknowledged_records(seed: int, *, elr: bool) -> None:
    story = Story(seed, elr=elr)
    for _ in range(STEPS):
        story.step()
    for _ in BROKERS:
        story.come_back()
    assert partition(story.harness).leader >= 0, story.steps
