# Written by tools/generate_messages.py from definitions/quorum_state.txt: change the definition, not this file.
"""Quorum state.

The names and types of the fields of the quorum-state file, which is JSON.
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Structure

__all__ = [
    "QuorumStateData",
    "Voter",
]


class Voter(Structure):
    """An element of `QuorumStateData.current_voters`."""

    __slots__ = ("voter_id",)

    FIELDS = (("voter_id", "int32", (0, 32767), None, None, 0, False),)

    def __init__(
        self,
        *,
        voter_id: int = 0,
    ) -> None:
        self.voter_id = voter_id


class QuorumStateData(Message):
    """Data, versions 0 to 1, flexible."""

    __slots__ = (
        "cluster_id",
        "leader_id",
        "leader_epoch",
        "voted_id",
        "voted_directory_id",
        "applied_offset",
        "current_voters",
    )

    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("cluster_id", "string", (0, 0), None, None, "", False),
        ("leader_id", "int32", (0, 32767), None, None, -1, False),
        ("leader_epoch", "int32", (0, 32767), None, None, -1, False),
        ("voted_id", "int32", (0, 32767), None, None, -1, False),
        ("voted_directory_id", "uuid", (1, 32767), None, None, 0, False),
        ("applied_offset", "int64", (0, 0), None, None, 0, False),
        ("current_voters", "[Voter]", (0, 0), (0, 32767), None, (), False),
    )

    def __init__(
        self,
        *,
        cluster_id: str = "",
        leader_id: int = -1,
        leader_epoch: int = -1,
        voted_id: int = -1,
        voted_directory_id: Uuid = Uuid.ZERO,
        applied_offset: int = 0,
        current_voters: list[Voter] | None = EMPTY,
    ) -> None:
        self.cluster_id = cluster_id
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.voted_id = voted_id
        self.voted_directory_id = voted_directory_id
        self.applied_offset = applied_offset
        self.current_voters = [] if current_voters is EMPTY else current_voters
