"""What a replica of the metadata log can be, and what it may become.

Being a voter or an observer is no role: it follows from the set of voters, and changes with it. An observer is
Unattached or a Follower and never anything else.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

__all__ = ["NOMINEES", "Role", "TRANSITIONS"]


class Role(Enum):
    # No leader is known in this epoch; it may have voted in it.
    UNATTACHED = "unattached"
    # Asks whether it would be elected, before it disturbs anybody with a new epoch (KIP-996).
    PROSPECTIVE = "prospective"
    # Stands for election in an epoch of its own.
    CANDIDATE = "candidate"
    LEADER = "leader"
    FOLLOWER = "follower"
    # Was the leader of this epoch and leads no longer; nobody else can lead it.
    RESIGNED = "resigned"


NOMINEES: Final = (Role.PROSPECTIVE, Role.CANDIDATE)

# From -> to. A new epoch may make anybody Unattached or a Follower.
TRANSITIONS: Final[dict[Role, frozenset[Role]]] = {
    Role.UNATTACHED: frozenset((Role.UNATTACHED, Role.PROSPECTIVE, Role.CANDIDATE, Role.FOLLOWER)),
    Role.PROSPECTIVE: frozenset((Role.UNATTACHED, Role.CANDIDATE, Role.FOLLOWER)),
    Role.CANDIDATE: frozenset((Role.UNATTACHED, Role.PROSPECTIVE, Role.LEADER, Role.FOLLOWER)),
    Role.LEADER: frozenset((Role.UNATTACHED, Role.FOLLOWER, Role.RESIGNED)),
    Role.FOLLOWER: frozenset((Role.UNATTACHED, Role.PROSPECTIVE, Role.FOLLOWER)),
    Role.RESIGNED: frozenset((Role.UNATTACHED, Role.FOLLOWER)),
}
