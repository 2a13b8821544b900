"""Where a member stands on its way to its target assignment, and which state may follow which.

                    +---- nothing to give up, all to be had is free ----+
                    v                                                   |
    STABLE ---- has to give partitions up ----> UNREVOKED ---- has given them up ----> UNRELEASED
       ^  |                                                                             |   ^
       |  +--------- waits for partitions that others still hold ----------------------|---+
       +---------------------------- they are free ------------------------------------+

A member in UNREVOKED keeps its epoch until it reports that it no longer owns what it has to give up; in the two other
states it has the epoch of the target assignment.
"""

from __future__ import annotations

from enum import Enum, IntEnum

__all__ = ["GROUP_STATES", "MEMBER_TRANSITIONS", "GroupState", "MemberState"]


class MemberState(IntEnum):
    """By the numbers the records have."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    # Written by software newer than this: the member has to start over.
    UNKNOWN = 127

    @classmethod
    def of(cls, value: int) -> MemberState:
        return _BY_VALUE.get(value, cls.UNKNOWN)


_BY_VALUE = {int(state): state for state in MemberState}
_ANY = frozenset({MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS})

# A target may change in every state, so that every state but UNKNOWN may follow every other.
MEMBER_TRANSITIONS: dict[MemberState, frozenset[MemberState]] = {
    MemberState.STABLE: _ANY,
    MemberState.UNREVOKED_PARTITIONS: _ANY,
    MemberState.UNRELEASED_PARTITIONS: _ANY,
    MemberState.UNKNOWN: _ANY,
}


class GroupState(Enum):
    """What is seen of a group from outside; it follows from the epochs and the members, and is never stored."""

    EMPTY = "Empty"
    # The group's epoch is ahead of its target assignment.
    ASSIGNING = "Assigning"
    # Some member is not where its target is.
    RECONCILING = "Reconciling"
    STABLE = "Stable"


GROUP_STATES = tuple(state.value for state in GroupState)
