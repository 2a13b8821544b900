"""The phases of a classic group, and which may follow which.

    EMPTY ---first member joins---> PREPARING_REBALANCE ---all have joined---> COMPLETING_REBALANCE
      ^                              |      ^     ^                                   |       |
      +----nobody has joined---------+      |     +----a member joins, leaves, fails--+       | the leader has synced
                                            +---------------- STABLE <------------------------+

Everything may become DEAD: the group is deleted, or its coordinator moves.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["PHASE_TRANSITIONS", "Phase"]


class Phase(Enum):
    """By the names clients see."""

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
