# Written by tools/generate_messages.py from definitions/control_records.txt: change the definition, not this file.
"""Control records.

Bodies of control records.
The key of a control record is a version and a type. Transaction markers are requested by coordinators; the other
control records are written by the leader of the metadata quorum.
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Structure

__all__ = [
    "ControlRecordTypeSchema",
    "EndTxnMarker",
    "Endpoint",
    "KRaftVersionFeature",
    "KRaftVersionRecord",
    "LeaderChangeMessage",
    "LeaderChangeVoter",
    "SnapshotFooterRecord",
    "SnapshotHeaderRecord",
    "VotersRecord",
    "VotersRecordVoter",
]


class LeaderChangeVoter(Structure):
    """Shared by several fields."""

    __slots__ = ("voter_id", "voter_directory_id")

    FIELDS = (
        ("voter_id", "int32", (0, 32767), None, None, 0, False),
        ("voter_directory_id", "uuid", (1, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        voter_id: int = 0,
        voter_directory_id: Uuid = Uuid.ZERO,
    ) -> None:
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id


class ControlRecordTypeSchema(Message):
    """Data, version 0."""

    __slots__ = ("type",)

    VERSIONS = (0, 0)
    FIELDS = (("type", "int16", (0, 32767), None, None, 0, False),)

    def __init__(
        self,
        *,
        type: int = 0,
    ) -> None:
        self.type = type


class EndTxnMarker(Message):
    """Data, version 0."""

    __slots__ = ("coordinator_epoch",)

    VERSIONS = (0, 0)
    FIELDS = (("coordinator_epoch", "int32", (0, 32767), None, None, 0, False),)

    def __init__(
        self,
        *,
        coordinator_epoch: int = 0,
    ) -> None:
        self.coordinator_epoch = coordinator_epoch


class KRaftVersionRecord(Message):
    """Data, version 0, flexible."""

    __slots__ = ("version", "kraft_version")

    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("version", "int16", (0, 32767), None, None, 0, False),
        ("kraft_version", "int16", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        version: int = 0,
        kraft_version: int = 0,
    ) -> None:
        self.version = version
        self.kraft_version = kraft_version


class LeaderChangeMessage(Message):
    """Data, versions 0 to 1, flexible."""

    __slots__ = ("version", "leader_id", "voters", "granting_voters")

    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("version", "int16", (0, 32767), None, None, 0, False),
        ("leader_id", "int32", (0, 32767), None, None, 0, False),
        ("voters", "[LeaderChangeVoter]", (0, 32767), None, None, (), False),
        ("granting_voters", "[LeaderChangeVoter]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        version: int = 0,
        leader_id: int = 0,
        voters: list[LeaderChangeVoter] = EMPTY,
        granting_voters: list[LeaderChangeVoter] = EMPTY,
    ) -> None:
        self.version = version
        self.leader_id = leader_id
        self.voters = [] if voters is EMPTY else voters
        self.granting_voters = [] if granting_voters is EMPTY else granting_voters


class SnapshotFooterRecord(Message):
    """Data, version 0, flexible."""

    __slots__ = ("version",)

    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (("version", "int16", (0, 32767), None, None, 0, False),)

    def __init__(
        self,
        *,
        version: int = 0,
    ) -> None:
        self.version = version


class SnapshotHeaderRecord(Message):
    """Data, version 0, flexible."""

    __slots__ = ("version", "last_contained_log_timestamp")

    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("version", "int16", (0, 32767), None, None, 0, False),
        ("last_contained_log_timestamp", "int64", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        version: int = 0,
        last_contained_log_timestamp: int = 0,
    ) -> None:
        self.version = version
        self.last_contained_log_timestamp = last_contained_log_timestamp


class Endpoint(Structure):
    """An element of `VotersRecordVoter.endpoints`."""

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
    """The value of `VotersRecordVoter.kraft_version_feature`."""

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


class VotersRecordVoter(Structure):
    """An element of `VotersRecord.voters`."""

    __slots__ = ("voter_id", "voter_directory_id", "endpoints", "kraft_version_feature")

    FIELDS = (
        ("voter_id", "int32", (0, 32767), None, None, 0, False),
        ("voter_directory_id", "uuid", (0, 32767), None, None, 0, False),
        ("endpoints", "[Endpoint]", (0, 32767), None, None, (), False),
        ("kraft_version_feature", "KRaftVersionFeature", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        voter_id: int = 0,
        voter_directory_id: Uuid = Uuid.ZERO,
        endpoints: list[Endpoint] = EMPTY,
        kraft_version_feature: KRaftVersionFeature = EMPTY,
    ) -> None:
        self.voter_id = voter_id
        self.voter_directory_id = voter_directory_id
        self.endpoints = [] if endpoints is EMPTY else endpoints
        self.kraft_version_feature = KRaftVersionFeature() if kraft_version_feature is EMPTY else kraft_version_feature


class VotersRecord(Message):
    """Data, version 0, flexible."""

    __slots__ = ("version", "voters")

    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("version", "int16", (0, 32767), None, None, 0, False),
        ("voters", "[VotersRecordVoter]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        version: int = 0,
        voters: list[VotersRecordVoter] = EMPTY,
    ) -> None:
        self.version = version
        self.voters = [] if voters is EMPTY else voters
