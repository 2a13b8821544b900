"""Calls `invariants()` of partitions, fetch sessions and the Raft node after the events of every node.

Checking every partition after every event would take longer than the events themselves. So an event is followed by the
next few partitions in turn, and a round over all partitions by the fetch sessions and the Raft node. A broken invariant
is found on its node within a few dozen events, and the trace shows which events these were.

The machine of the quorum also checks itself in every step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from ottla.sim.checkers.checker import Checker
from ottla.sim.cluster import SimCluster
from ottla.sim.history import History
from ottla.sim.node import SimNode

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.replica.partition import Partition

__all__ = ["ReplicaInvariants"]

PARTITIONS_PER_EVENT = 2


class ReplicaInvariants(Checker):
    """Checks every run of a node's program from the moment its broker is ready."""

    rule = "replica invariants"

    def __init__(self, cluster: SimCluster, history: History) -> None:
        super().__init__(cluster, history)
        cluster.on_ready.append(self._follow)

    def _follow(self, node: SimNode) -> None:
        assert node.broker is not None
        assert node.process is not None
        node.process.after_event = _Rounds(
            node.broker, lambda sentence: self.report(f"node {node.node_id}: {sentence}")
        )


class _Rounds:
    """Checks the partitions of one node, a few after each event."""

    def __init__(self, broker: Broker, on_broken: Callable[[str], object]) -> None:
        self._replicas = broker.replicas
        self._quorum = broker.quorum
        self._on_broken = on_broken
        self._round: Iterator[Partition] = iter(())

    def __call__(self) -> None:
        for _ in range(PARTITIONS_PER_EVENT):
            partition = next(self._round, None)
            if partition is None:
                self._begin_round()
                return
            self._check(partition, partition.invariants)

    def _begin_round(self) -> None:
        self._round = iter(list(self._replicas.partitions()))
        self._check("fetch sessions", self._replicas.sessions.invariants)
        if self._quorum is not None and not self._quorum.is_closed:
            self._check("quorum", self._quorum.invariants)

    def _check(self, checked: object, invariants: Callable[[], None]) -> None:
        try:
            invariants()
        except AssertionError as error:
            traceback = error.__traceback__
            assert traceback is not None
            while traceback.tb_next is not None:
                traceback = traceback.tb_next
            place = traceback.tb_frame.f_code.co_qualname
            self._on_broken(f"{checked}: {error or 'broken'} [{place}, line {traceback.tb_lineno}]")
