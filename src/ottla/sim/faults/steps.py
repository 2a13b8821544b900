"""Kills at the steps of a transaction: every node with a role in it is killed before, during and after every step.

A step is a request of the protocol. A kill names the request, the moment and the victim, as in
`END_TXN arrives: transaction coordinator`. At every moment the victim is killed either at once, or at the next change
to its disk, so that the effects of the request are half done. `ALL_STEPS` lists every kill. The schedule executes a
list in order, each kill when a transaction reaches its step, and skips steps that are not reached for a while. In
transaction version 2, for instance, clients do not send AddOffsetsToTxn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ottla.sim.cluster import SimCluster
from ottla.sim.kernel import SECOND_US
from ottla.sim.node import SimNode
from ottla.wire.api import ApiKey

__all__ = ["ALL_STEPS", "Step", "StepSchedule", "Watch"]

# In the order in which a transaction sends them.
STEPS = (
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.PRODUCE,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
    ApiKey.WRITE_TXN_MARKERS,
)
MOMENTS = ("arrives", "arrives, next write", "is answered", "is answered, next write")
COORDINATOR, LEADER, GROUP_COORDINATOR = "transaction coordinator", "partition leader", "group coordinator"
# The role of the node that receives a request.
ROLES = {
    ApiKey.INIT_PRODUCER_ID: COORDINATOR,
    ApiKey.END_TXN: COORDINATOR,
    ApiKey.PRODUCE: LEADER,
    ApiKey.TXN_OFFSET_COMMIT: GROUP_COORDINATOR,
}
# Requests that brokers send as well. All other requests only count if a transactional client sends them.
BETWEEN_BROKERS = (ApiKey.ADD_PARTITIONS_TO_TXN, ApiKey.WRITE_TXN_MARKERS)

WAIT_SECONDS_MAX = 8.0
PAUSE_SECONDS = 0.3


class Step(NamedTuple):
    """One kill: the request, the moment and the role of the victim."""

    api: str
    moment: str
    victim: str

    def __str__(self) -> str:
        return f"{self.api} {self.moment}: {self.victim}"


ALL_STEPS = tuple(
    Step(api.name, moment, victim)
    for api in STEPS
    for moment in MOMENTS
    for victim in (COORDINATOR, LEADER, GROUP_COORDINATOR)
)


class Watch:
    """Watches requests and responses of all nodes, tracks the nodes' roles, and kills at the selected step."""

    def __init__(self, cluster: SimCluster, hosts: set[str]) -> None:
        self._cluster = cluster
        self._hosts = hosts
        self._roles: dict[str, SimNode] = {}
        self._next: Step | None = None
        for node in cluster.nodes.values():
            node.on_request = self._on_request

    @property
    def is_set(self) -> bool:
        return self._next is not None

    def set(self, step: Step | None) -> None:
        self._next = step

    def _on_request(self, node: SimNode, api_key: int, client_host: str, moment: str) -> None:
        if api_key not in STEPS or (client_host not in self._hosts and api_key not in BETWEEN_BROKERS):
            return
        api = ApiKey(api_key)
        role = ROLES.get(api)
        if role is not None:
            self._roles[role] = node
        step = self._next
        if step is None or step.api != api.name or not step.moment.startswith(moment):
            return
        victim = self._roles.get(step.victim)
        other_nodes = (other for other in self._cluster.nodes.values() if other is not victim)
        if victim is None or not victim.is_running or any(self._cluster.is_damaged(other) for other in other_nodes):
            return
        self._next = None
        self._cluster.kernel.trace("kill at a step", str(step))
        self._cluster.kernel.counts[f"killed at {step.api}"] += 1
        if step.moment == moment:
            victim.kill(f"killed at a step: {step}")
        else:
            victim.disk.changes_until_kill = 1


class StepSchedule:
    """Executes a list of kills, each after all nodes are up again."""

    def __init__(self, watch: Watch, cluster: SimCluster, steps: Sequence[Step]) -> None:
        self._watch = watch
        self._cluster = cluster
        self._remaining = list(reversed(steps))
        self._deadline_us = 0
        self.is_over = not steps

    def start(self) -> None:
        if not self.is_over:
            self._check_progress()

    def end(self) -> None:
        self.is_over = True
        self._watch.set(None)

    def _check_progress(self) -> None:
        if self.is_over:
            return
        kernel = self._cluster.kernel
        if self._watch.is_set and kernel.now_us >= self._deadline_us:
            kernel.counts["step not reached"] += 1
            self._watch.set(None)
        is_quiet = self._cluster.all_serve and not any(node.disk.may_fail for node in self._cluster.nodes.values())
        if not self._watch.is_set and is_quiet:
            if not self._remaining:
                self.end()
                return
            self._watch.set(self._remaining.pop())
            self._deadline_us = kernel.now_us + round(WAIT_SECONDS_MAX * SECOND_US)
        kernel.after(round(PAUSE_SECONDS * SECOND_US), self._check_progress)
