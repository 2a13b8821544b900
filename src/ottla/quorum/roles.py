"""The roles of a replica of the metadata log, and the transitions between them.

Voter and observer are not roles: they follow from the set of voters. An observer is always Unattached or a Follower.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

__all__ = ["NOMINEES", "Role", "TRANSITIONS"]


class Role(Enum):
    # A replica without a leader in this epoch. It may have voted in the epoch.
    UNATTACHED = "unattached"
    # A replica that requests pre-votes before it begins an election in a new epoch (KIP-996).
    PROSPECTIVE = "prospective"
    # A replica that requests votes in an epoch that it has begun.
    CANDIDATE = "candidate"
    LEADER = "leader"
    FOLLOWER = "follower"
    # Was the leader of this epoch and has resigned. The epoch has no other leader.
    RESIGNED = "resigned"


NOMINEES: Final = (Role.PROSPECTIVE, Role.CANDIDATE)

# From -> to. With a new epoch every role may become Unattached or Follower.
TRANSITIONS: Final[dict[Role, frozenset[Role]]] = {
    Role.UNATTACHED: frozenset((Role.UNATTACHED, Role.PROSPECTIVE, Role.CANDIDATE, Role.FOLLOWER)),
    Role.PROSPECTIVE: frozenset((Role.UNATTACHED, Role.CANDIDATE, Role.FOLLOWER)),
    Role.CANDIDATE: frozenset((Role.UNATTACHED, Role.PROSPECTIVE, Role.LEADER, Role.FOLLOWER)),
    Role.LEADER: frozenset((Role.UNATTACHED, Role.FOLLOWER, Role.RESIGNED)),
    Role.FOLLOWER: frozenset((Role.UNATTACHED, Role.PROSPECTIVE, Role.FOLLOWER)),
    Role.RESIGNED: frozenset((Role.UNATTACHED, Role.FOLLOWER)),
}
