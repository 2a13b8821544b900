"""The phases of a classic group, and the table of their transitions.

    EMPTY ---first member joins---> PREPARING_REBALANCE ---all have joined---> COMPLETING_REBALANCE
      ^                              |      ^     ^                                   |       |
      +----no member is left---------+      |     +----a member joins, leaves, fails--+       | the leader has synced
                                            +---------------- STABLE <------------------------+

Every phase may become DEAD: the coordinator moves.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["PHASE_TRANSITIONS", "Phase"]


class Phase(Enum):
    """The values are the names in responses."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


PHASE_TRANSITIONS: dict[Phase, frozenset[Phase]] = {
    Phase.EMPTY: frozenset({Phase.PREPARING_REBALANCE, Phase.DEAD}),
    Phase.PREPARING_REBALANCE: frozenset({Phase.COMPLETING_REBALANCE, Phase.EMPTY, Phase.DEAD}),
    Phase.COMPLETING_REBALANCE: frozenset({Phase.STABLE, Phase.PREPARING_REBALANCE, Phase.DEAD}),
    Phase.STABLE: frozenset({Phase.PREPARING_REBALANCE, Phase.DEAD}),
    Phase.DEAD: frozenset({Phase.DEAD}),
}
