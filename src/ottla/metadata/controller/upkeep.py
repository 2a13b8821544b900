"""The periodic decisions of the active controller: preferred leaders, unclean elections, no-op records.

| every | decision |
|---|---|
| `leader.imbalance.check.interval.seconds` | preferred replicas lead again (`auto.leader.rebalance.enable`) |
| `unclean.leader.election.interval.ms` | partitions without a leader get one where unclean elections are allowed |
| `metadata.max.idle.interval.ms` | a no-op record (KIP-835): its commit shows that a majority can write |

A decision that reaches its limit of changes is followed by the next one at once. Requests that arrived meanwhile are
decided in between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ottla.metadata.controller.cluster import decide_write_no_op
from ottla.metadata.controller.decision import Decision, DecisionContext
from ottla.metadata.controller.elections import decide_balance_leaders, decide_unclean_elections
from ottla.model.deferred import Deferred

if TYPE_CHECKING:
    from ottla.model.config import BrokerConfig
    from ottla.model.ports import Timer, World

__all__ = ["LeaderUpkeep"]

# The response tells whether to decide again at once, because the decision was cut off at its limit of changes.
Decide = Callable[[DecisionContext], Decision[bool]]


class Submits(Protocol):
    def submit(self, decide: Decide) -> Deferred[bool]: ...


class LeaderUpkeep:
    """Runs while the controller of this node is active."""

    def __init__(self, *, world: World, controller: Submits, config: BrokerConfig) -> None:
        self._world = world
        self._controller = controller
        self._config = config
        self._timers: dict[str, Timer] = {}

    def start(self) -> None:
        assert not self._timers, "already started"
        if self._config.auto_leader_rebalance_enable:
            interval = float(self._config.leader_imbalance_check_interval_seconds)
            self._plan("balance", interval, interval, decide_balance_leaders)
        interval = self._config.unclean_leader_election_interval_ms / 1000
        self._plan("unclean", interval, interval, decide_unclean_elections)
        if self._config.metadata_max_idle_interval_ms:
            interval = self._config.metadata_max_idle_interval_ms / 1000
            self._plan("idle", interval, interval, decide_write_no_op)

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _plan(self, name: str, delay: float, interval: float, decide: Decide) -> None:
        def on_decided(decided: Deferred[bool]) -> None:
            # A controller that has failed or is no longer active gives no answer: the next attempt waits its turn.
            has_more = decided.error is None and decided.result()
            if name in self._timers:
                self._plan(name, 0.0 if has_more else interval, interval, decide)

        self._timers[name] = self._world.scheduler.call_later(
            delay, lambda: self._controller.submit(decide).when_done(on_decided)
        )
