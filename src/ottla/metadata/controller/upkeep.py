"""The periodic decisions of the active controller: preferred leaders, unclean elections, no-op records, old tokens.

| every | decision |
|---|---|
| `leader.imbalance.check.interval.seconds` | preferred replicas lead again (`auto.leader.rebalance.enable`) |
| `unclean.leader.election.interval.ms` | partitions without a leader get one where unclean elections are allowed |
| `metadata.max.idle.interval.ms` | a no-op record (KIP-835): its commit shows that a majority can write |
| `delegation.token.expiry.check.interval.ms` | delegation tokens that have expired are removed |

A decision that reaches its limit of changes is followed by the next one at once. Requests that arrived meanwhile are
decided in between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from ottla.decisions import Repeater
from ottla.metadata.controller.cluster import decide_write_no_op
from ottla.metadata.controller.decision import Decision, DecisionContext
from ottla.metadata.controller.elections import decide_balance_leaders, decide_unclean_elections
from ottla.model.deferred import Deferred

if TYPE_CHECKING:
    from ottla.model.config import BrokerConfig
    from ottla.model.ports import World

__all__ = ["LeaderUpkeep"]

# The response is True if the decision reached its limit of changes and has to be repeated at once.
Decide = Callable[[DecisionContext], Decision[bool]]


class Submits(Protocol):
    def submit(self, decide: Decide) -> Deferred[bool]: ...


class LeaderUpkeep:
    """Runs while the controller of this node is active."""

    def __init__(self, *, world: World, controller: Submits, config: BrokerConfig) -> None:
        self._controller = controller
        self._config = config
        self._repeater = Repeater(world.scheduler)

    def start(self) -> None:
        config = self._config
        if config.auto_leader_rebalance_enable:
            self._every(config.leader_imbalance_check_interval_seconds, "balance", decide_balance_leaders)
        self._every(config.unclean_leader_election_interval_ms / 1000, "unclean", decide_unclean_elections)
        if config.metadata_max_idle_interval_ms:
            self._every(config.metadata_max_idle_interval_ms / 1000, "idle", decide_write_no_op)
        if config.delegation_token_secret_key is not None:
            from ottla.metadata.controller.tokens import decide_remove_expired_tokens

            seconds = config.delegation_token_expiry_check_interval_ms / 1000
            self._every(seconds, "tokens", decide_remove_expired_tokens)

    def stop(self) -> None:
        self._repeater.stop()

    def _every(self, seconds: float, name: str, decide: Decide) -> None:
        self._repeater.every(lambda: seconds, name, lambda: self._controller.submit(decide))
