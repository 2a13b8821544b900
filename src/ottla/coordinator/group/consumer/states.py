"""The states of a member on the way to its target assignment, and the table of their transitions.

                    +---- nothing to give up, all to be had is free ----+
                    v                                                   |
    STABLE ---- has to give partitions up ----> UNREVOKED ---- has given them up ----> UNRELEASED
       ^  |                                                                             |   ^
       |  +--------- waits for partitions that others still hold ----------------------|---+
       +---------------------------- they are free ------------------------------------+

A member in UNREVOKED keeps its epoch until it reports that it has revoked the partitions. In the two other states it
has the epoch of the target assignment.
"""

from __future__ import annotations

from enum import Enum, IntEnum

__all__ = ["GROUP_STATES", "MEMBER_TRANSITIONS", "GroupState", "MemberState"]


class MemberState(IntEnum):
    """The values are the numbers in records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    # Written by newer software: the member has to join again.
    UNKNOWN = 127

    @classmethod
    def of(cls, value: int) -> MemberState:
        return _BY_VALUE.get(value, cls.UNKNOWN)


_BY_VALUE = {int(state): state for state in MemberState}
_ANY = frozenset({MemberState.STABLE, MemberState.UNREVOKED_PARTITIONS, MemberState.UNRELEASED_PARTITIONS})

# A target may change in every state, so every state but UNKNOWN may follow every other.
MEMBER_TRANSITIONS: dict[MemberState, frozenset[MemberState]] = {
    MemberState.STABLE: _ANY,
    MemberState.UNREVOKED_PARTITIONS: _ANY,
    MemberState.UNRELEASED_PARTITIONS: _ANY,
    MemberState.UNKNOWN: _ANY,
}


class GroupState(Enum):
    """The state of a group in responses; it follows from the epochs and the members, and is never stored."""

    EMPTY = "Empty"
    # The group's epoch is ahead of its target assignment.
    ASSIGNING = "Assigning"
    # A member has yet to reach its target.
    RECONCILING = "Reconciling"
    STABLE = "Stable"


GROUP_STATES = tuple(state.value for state in GroupState)
