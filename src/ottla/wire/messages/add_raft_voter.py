# Written by tools/generate_messages.py from definitions/80_add_raft_voter.txt: change the definition, not this file.
"""AddRaftVoter, API key 80.

Adds a voter to the metadata quorum (KIP-853).
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "AddRaftVoterRequest",
    "AddRaftVoterResponse",
    "Listener",
]


class Listener(Structure):
    """An element of `AddRaftVoterRequest.listeners`."""

    __slots__ = ("name", "host", "port")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("host", "string", (0, 32767), None, None, "", False),
        ("port", "uint16", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        host: str = "",
        port: int = 0,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port


class AddRaftVoterRequest(Request["AddRaftVoterResponse"]):
    """Request, versions 0 to 1, flexible."""

    __slots__ = ("cluster_id", "timeout_ms", "voter_id", "voter_directory_id", "listeners", "ack_when_committed")

    API_KEY = 80
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("cluster_id", "string", (0, 32767), (0, 32767), None, "", False),
        ("timeout_ms", "int32", (0, 32767), None, None, 0, False),
        ("voter_id", "int32", (0, 32767), None, None, 0, False),
        ("voter_directory_id", "uuid", (0, 32767), None, None, 0, False),
        ("listeners", "[Listener]", (0, 32767), None, None, (), False),
        ("ack_when_committed", "bool", (1, 32767), None, None, True, False),
    )

    def __init__(
        self,
        *,
        cluster_id: str | None = "",
        timeout_ms: int = 0,
        voter_id: int = 0,
        voter_directory_id: Uuid = Uuid.ZERO,
        listeners: list[Listener] = EMPTY,
        ack_when_committed: bool = True,
    ) -> None:
        self.cluster_id = cluster_id
        self.timeout_ms = timeout_ms
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.listeners = [] if listeners is EMPTY else listeners
        self.ack_when_committed = ack_when_committed


class AddRaftVoterResponse(Message):
    """Response, versions 0 to 1, flexible."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message")

    API_KEY = 80
    VERSIONS = (0, 1)
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
