# Written by tools/generate_messages.py from definitions/82_update_raft_voter.txt: change the definition, not this file.
"""UpdateRaftVoter, API key 82.

A voter reports its current endpoints and versions to the leader (KIP-853).
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "CurrentLeader",
    "KRaftVersionFeature",
    "Listener",
    "UpdateRaftVoterRequest",
    "UpdateRaftVoterResponse",
]


class Listener(Structure):
    """An element of `UpdateRaftVoterRequest.listeners`."""

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


class KRaftVersionFeature(Structure):
    """The value of `UpdateRaftVoterRequest.kraft_version_feature`."""

    __slots__ = ("min_supported_version", "max_supported_version")

    FIELDS = (
        ("min_supported_version", "int16", (0, 32767), None, None, 0, False),
        ("max_supported_version", "int16", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        min_supported_version: int = 0,
        max_supported_version: int = 0,
    ) -> None:
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version


class UpdateRaftVoterRequest(Request["UpdateRaftVoterResponse"]):
    """Request, version 0, flexible."""

    __slots__ = (
        "cluster_id",
        "current_leader_epoch",
        "voter_id",
        "voter_directory_id",
        "listeners",
        "kraft_version_feature",
    )

    API_KEY = 82
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("cluster_id", "string", (0, 32767), (0, 32767), None, "", False),
        ("current_leader_epoch", "int32", (0, 32767), None, None, 0, False),
        ("voter_id", "int32", (0, 32767), None, None, 0, False),
        ("voter_directory_id", "uuid", (0, 32767), None, None, 0, False),
        ("listeners", "[Listener]", (0, 32767), None, None, (), False),
        ("kraft_version_feature", "KRaftVersionFeature", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        cluster_id: str | None = "",
        current_leader_epoch: int = 0,
        voter_id: int = 0,
        voter_directory_id: Uuid = Uuid.ZERO,
        listeners: list[Listener] = EMPTY,
        kraft_version_feature: KRaftVersionFeature = EMPTY,
    ) -> None:
        self.cluster_id = cluster_id
        self.current_leader_epoch = current_leader_epoch
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.listeners = [] if listeners is EMPTY else listeners
        self.kraft_version_feature = KRaftVersionFeature() if kraft_version_feature is EMPTY else kraft_version_feature


class CurrentLeader(Structure):
    """The value of `UpdateRaftVoterResponse.current_leader`."""

    __slots__ = ("leader_id", "leader_epoch", "host", "port")

    FIELDS = (
        ("leader_id", "int32", (0, 32767), None, None, -1, False),
        ("leader_epoch", "int32", (0, 32767), None, None, -1, False),
        ("host", "string", (0, 32767), None, None, "", False),
        ("port", "int32", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        leader_id: int = -1,
        leader_epoch: int = -1,
        host: str = "",
        port: int = 0,
    ) -> None:
        self.leader_id = leader_id
        self.leader_epoch = leader_epoch
        self.host = host
        self.port = port


class UpdateRaftVoterResponse(Message):
    """Response, version 0, flexible."""

    __slots__ = ("throttle_time_ms", "error_code", "current_leader")

    API_KEY = 82
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("current_leader", "CurrentLeader", (0, 32767), None, 0, None, False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        current_leader: CurrentLeader | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.current_leader = current_leader
