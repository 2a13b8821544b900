"""What the active controller does by itself, on timers: give leadership back, look for missing leaders, show life.

Leaders drift away from the preferred replicas whenever brokers restart; every `leader.imbalance.check.interval.seconds`
they are brought back (`auto.leader.rebalance.enable`). Every `unclean.leader.election.interval.ms` partitions without
a leader are looked at where an unclean election is allowed. A look that made as many changes as it may is followed by
the next at once, so that other requests get their turn in between. Every `metadata.max.idle.interval.ms` an empty
record is written (KIP-835): who watches the committed offset grow knows that a majority can still write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ottla.model.deferred import Deferred

if TYPE_CHECKING:
    from ottla.model.config import BrokerConfig
    from ottla.model.ports import Timer, World

__all__ = ["LeaderUpkeep"]


class Electing(Protocol):
    """The part of the controller that is needed here; each says whether it should be called again at once."""

    def balance_leaders(self) -> Deferred[bool]: ...

    def elect_unclean_leaders(self) -> Deferred[bool]: ...

    def write_nothing(self) -> Deferred[bool]: ...


class LeaderUpkeep:
    """To be started when this node's controller becomes the active one, and stopped when it no longer is."""

    def __init__(self, *, world: World, controller: Electing, config: BrokerConfig) -> None:
        self._world = world
        self._controller = controller
        self._config = config
        self._timers: dict[str, Timer] = {}

    def start(self) -> None:
        assert not self._timers, "already started"
        if self._config.auto_leader_rebalance_enable:
            interval = float(self._config.leader_imbalance_check_interval_seconds)
            self._plan("balance", interval, interval, self._controller.balance_leaders)
        interval = self._config.unclean_leader_election_interval_ms / 1000
        self._plan("unclean", interval, interval, self._controller.elect_unclean_leaders)
        if self._config.metadata_max_idle_interval_ms:
            interval = self._config.metadata_max_idle_interval_ms / 1000
            self._plan("idle", interval, interval, self._controller.write_nothing)

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _plan(self, name: str, delay: float, interval: float, look: Callable[[], Deferred[bool]]) -> None:
        def on_looked(looked: Deferred[bool]) -> None:
            # A controller that has just failed or lost its place does not answer; then there is nothing to hurry for.
            has_more = looked.error is None and looked.result()
            if name in self._timers:
                self._plan(name, 0.0 if has_more else interval, interval, look)

        self._timers[name] = self._world.scheduler.call_later(delay, lambda: look().when_done(on_looked))
