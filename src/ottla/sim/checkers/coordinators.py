"""The state of every coordinator shard is consistent: its groups, its transactions and its commit gate."""

from __future__ import annotations

from ottla.sim.checkers.checker import Checker

__all__ = ["CoordinatorInvariants"]


class CoordinatorInvariants(Checker):
    """Calls `invariants()` of every shard of every node's coordinators."""

    rule = "coordinator invariants"

    def sample(self) -> None:
        for node in self.cluster.nodes.values():
            if node.broker is None:
                continue
            for coordination in (node.broker.group_coordination, node.broker.transaction_coordination):
                coordinator = coordination.existing
                if coordinator is None:
                    continue
                try:
                    coordinator.runtime.invariants()
                except AssertionError as error:
                    self.report(f"node {node.node_id}: {error}")
