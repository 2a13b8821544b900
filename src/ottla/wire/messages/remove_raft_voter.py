# Written by tools/generate_messages.py from definitions/81_remove_raft_voter.txt: change the definition, not this file.
"""RemoveRaftVoter, API key 81.

Removes a voter from the metadata quorum (KIP-853).
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import Message, Request

__all__ = [
    "RemoveRaftVoterRequest",
    "RemoveRaftVoterResponse",
]


class RemoveRaftVoterRequest(Request["RemoveRaftVoterResponse"]):
    """Request, version 0, flexible."""

    __slots__ = ("cluster_id", "voter_id", "voter_directory_id")

    API_KEY = 81
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("cluster_id", "string", (0, 32767), (0, 32767), None, "", False),
        ("voter_id", "int32", (0, 32767), None, None, 0, False),
        ("voter_directory_id", "uuid", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        cluster_id: str | None = "",
        voter_id: int = 0,
        voter_directory_id: Uuid = Uuid.ZERO,
    ) -> None:
        self.cluster_id = cluster_id
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id


class RemoveRaftVoterResponse(Message):
    """Response, version 0, flexible."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message")

    API_KEY = 81
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, "", True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
