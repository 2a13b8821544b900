"""The quorum's machines against chance: crashes, partitions, lost messages, changing voters; every seed is a run."""

from __future__ import annotations

import pytest

from ottla.quorum.roles import Role
from ottla.quorum.voters import Voter
from tests.unit.quorum.model import Model, key

RUN_STEPS = 120


def _fault(model: Model) -> None:
    """One thing that goes wrong, or is put right again."""
    random = model.random
    node = random.choice(list(model.nodes.values()))
    kind = random.randrange(6)
    if kind == 0 and node.is_up:
        node.crash()
    elif kind == 1 and not node.is_up:
        node.start()
    elif kind == 2:
        alone = {other for other in model.nodes if random.random() < 0.4}
        model.passes = lambda source, target: (source in alone) == (target in alone)
    elif kind == 3:
        # One way only.
        deaf = node.node_id
        model.passes = lambda _source, target: target != deaf
    elif kind == 4:
        model.passes = lambda _source, _target: True
    else:
        model.loss = random.choice((0.0, 0.05, 0.3))


def _change_voters(model: Model) -> None:
    leader = model.leader()
    if leader is None:
        return
    voters = leader.machine.voters
    node_id = model.random.choice(list(model.nodes))
    if node_id in voters.ids:
        if len(voters) > 1:
            model.change_voters(leader, voters.without(node_id))
    else:
        model.change_voters(leader, voters.with_voter(Voter(key(node_id))))


def _heal(model: Model) -> None:
    model.loss = 0.0
    model.passes = lambda _source, _target: True
    for node in model.nodes.values():
        if not node.is_up:
            node.start()
    model.run(10_000)


def _check_whole(model: Model) -> None:
    """All nodes run: one leads, entries are committed again, and all logs are the same."""
    leader = model.leader()
    assert leader is not None
    model.append(leader)
    model.run(2_000)
    assert model.committed[-1].value == model.values
    for node in model.nodes.values():
        assert node.log.entries == model.committed
        assert node.machine.role is (Role.LEADER if node is leader else Role.FOLLOWER)


@pytest.mark.parametrize("seed", range(30))
def test_nothing_committed_is_lost_whatever_goes_wrong(seed: int) -> None:
    model = Model(seed=seed, nodes=3 + 2 * (seed % 2))
    model.run(1000)
    for _ in range(RUN_STEPS):
        if model.random.random() < 0.25:
            _fault(model)
        leader = model.leader()
        if leader is not None:
            model.append(leader)
        model.run(model.random.randint(1, 100))
    _heal(model)
    _check_whole(model)
    assert len(model.committed) > 3


@pytest.mark.parametrize("seed", range(1000, 1030))
def test_voters_may_come_and_go_meanwhile(seed: int) -> None:
    model = Model(seed=seed, nodes=5, voters=1 + seed % 3)
    model.run(1000)
    for _ in range(RUN_STEPS):
        if model.random.random() < 0.15:
            _fault(model)
        if model.random.random() < 0.2:
            _change_voters(model)
        leader = model.leader()
        if leader is not None:
            model.append(leader)
        model.run(model.random.randint(1, 100))
    _heal(model)
    _check_whole(model)


@pytest.mark.parametrize("seed", range(2000, 2040))
def test_two_who_are_left_do_not_stand_against_each_other(seed: int) -> None:
    """They lose their leader at the same time, and the leader's vote, which could decide between them, is gone."""
    model = Model(seed=seed, nodes=3)
    model.run(1000)
    former = model.leader()
    assert former is not None
    epoch = former.machine.epoch
    former.crash()
    model.run(1000)
    leader = model.leader()
    assert leader is not None
    assert leader.machine.epoch == epoch + 1, "the first election was won"


@pytest.mark.parametrize("seed", range(3000, 3020))
def test_a_change_of_voters_costs_no_leader_its_office(seed: int) -> None:
    """While all nodes run. A leader that removes itself resigns."""
    model = Model(seed=seed, nodes=5, voters=1 + seed % 5)
    model.run(1000)
    for _ in range(60):
        leader = model.leader()
        assert leader is not None
        epoch = leader.machine.epoch
        _change_voters(model)
        model.append(leader)
        model.run(model.random.randint(1, 600))
        if leader.machine.is_voter:
            assert (leader.machine.role, leader.machine.epoch) == (Role.LEADER, epoch)
        else:
            model.run(1000)


def test_a_voter_that_is_new_has_time_to_be_heard_of() -> None:
    """The leader was alone for long, so it knows no other node."""
    model = Model(seed=1, nodes=2, voters=1)
    model.run(60_000)
    leader = model.leader()
    assert leader is not None
    model.passes = lambda _source, _target: False
    assert model.change_voters(leader, leader.machine.voters.with_voter(Voter(key(3 - leader.node_id))))
    model.run(100)
    model.passes = lambda _source, _target: True
    model.run(2000)
    assert leader.machine.is_leader
    assert leader.committed == leader.log.end_offset


@pytest.mark.parametrize("seed", range(4000, 4030))
def test_a_voter_that_starts_with_another_disk_costs_no_committed_entry(seed: int) -> None:
    """KIP-853: the node is a new replica, so its fetches and votes do not count for the former voter."""
    model = Model(seed=seed, nodes=3)
    model.run(1000)
    swapped = model.nodes[1 + seed % 3]
    for _ in range(RUN_STEPS):
        if model.random.random() < 0.25:
            _fault(model)
        if model.random.random() < 0.1:
            if swapped.is_up:
                swapped.crash()
            swapped.swap_disk()
            swapped.start()
        leader = model.leader()
        if leader is not None:
            model.append(leader)
        model.run(model.random.randint(1, 100))
    if swapped.disk:
        if swapped.is_up:
            swapped.crash()
        swapped.swap_disk()
    _heal(model)
    _check_whole(model)
