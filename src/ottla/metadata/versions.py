"""Levels of `metadata.version` and of the other features, and the record versions that each level allows.

A finalised level promises every node of the cluster that no newer record is written to the log. The levels are Apache
Kafka's, so that its nodes and tools can read our log, and we can read theirs. Nodes support the levels of release 4.3.
The levels of 4.4 are known by name only: 4.4-IV1 allows CIDR notation in ACLs (KIP-1276), and 4.4-IV2 has a record for
unregistered controllers (KIP-1312), whose definition is in no published jar yet.
"""

from __future__ import annotations

from typing import Final

from ottla.wire.message import Message
from ottla.wire.messages import metadata_records as r
from ottla.wire.metadata_codec import encode_record

__all__ = [
    "DEFAULT_FEATURE_LEVELS",
    "DIRECTORIES_LEVEL",
    "METADATA_VERSION",
    "METADATA_VERSION_LATEST",
    "METADATA_VERSION_MIN",
    "METADATA_VERSION_OF_KAFKA",
    "METADATA_VERSION_UNSTABLE",
    "NOT_SERVED_YET",
    "SUPPORTED_FEATURES",
    "encode_for",
    "feature_dependencies",
    "feature_levels_at",
    "loses_metadata",
    "metadata_version_name",
    "metadata_version_of",
    "record_version",
    "supported_features",
]

METADATA_VERSION: Final = "metadata.version"
METADATA_VERSION_MIN: Final = 7
METADATA_VERSION_LATEST: Final = 30
# 4.4-IV0. Its records do not differ from 4.3, but nodes of 4.3 refuse it unless `unstable.feature.versions.enable` is
# set. Our nodes do the same.
METADATA_VERSION_UNSTABLE: Final = 31
# 4.4-IV2, the newest level of any release of Apache Kafka. An administrator may request it for nodes of Apache Kafka.
METADATA_VERSION_OF_KAFKA: Final = 33
# From 3.7-IV2 on, replicas have directories (KIP-858).
DIRECTORIES_LEVEL: Final = 17

# The (lowest, highest) level that this release supports; 0 means "off".
SUPPORTED_FEATURES: Final[dict[str, tuple[int, int]]] = {
    "eligible.leader.replicas.version": (0, 1),
    "group.version": (0, 1),
    "kraft.version": (0, 1),
    METADATA_VERSION: (METADATA_VERSION_MIN, METADATA_VERSION_LATEST),
    "share.version": (0, 1),
    "streams.version": (0, 1),
    "transaction.version": (0, 2),
}

# Features whose requests are refused at any level, so new clusters start without them. Nodes can still run at level 1,
# because clusters that Apache Kafka started have it.
NOT_SERVED_YET: Final = frozenset(("share.version", "streams.version"))

# The levels of storage that release 4.3 formats, in the order in which Kafka writes them.
DEFAULT_FEATURE_LEVELS: Final[dict[str, int]] = {
    METADATA_VERSION: METADATA_VERSION_LATEST,
    "eligible.leader.replicas.version": 1,
    "group.version": 1,
    "transaction.version": 2,
}

# Feature -> pairs of a `metadata.version` and the default level of the feature from that version on.
_FEATURES_SINCE: Final[dict[str, tuple[tuple[int, int], ...]]] = {
    "eligible.leader.replicas.version": ((26, 1),),
    "group.version": ((22, 1),),
    "share.version": ((28, 1), (31, 2)),
    "streams.version": ((29, 1),),
    "transaction.version": ((24, 2),),
}

# The other features that a feature at a level requires, as (feature, lowest level).
_DEPENDENCIES: Final[dict[tuple[str, int], tuple[tuple[str, int], ...]]] = {
    ("eligible.leader.replicas.version", 1): ((METADATA_VERSION, 23),),
}

# Levels that introduced records or fields that lower levels cannot express.
_CHANGING_LEVELS: Final = frozenset((7, 8, 11, 13, 14, 15, 17, 23, 30))

_NAMES: Final = {
    7: "3.3-IV3", 8: "3.4-IV0", 9: "3.5-IV0", 10: "3.5-IV1", 11: "3.5-IV2", 12: "3.6-IV0", 13: "3.6-IV1",
    14: "3.6-IV2", 15: "3.7-IV0", 16: "3.7-IV1", 17: "3.7-IV2", 18: "3.7-IV3", 19: "3.7-IV4", 20: "3.8-IV0",
    21: "3.9-IV0", 22: "4.0-IV0", 23: "4.0-IV1", 24: "4.0-IV2", 25: "4.0-IV3", 26: "4.1-IV0", 27: "4.1-IV1",
    28: "4.2-IV0", 29: "4.2-IV1", 30: "4.3-IV0", 31: "4.4-IV0", 32: "4.4-IV1", 33: "4.4-IV2", 34: "4.5-IV0",
}  # fmt: skip

# Record type -> (first level that allows the version, version), newest first. Other types have only version 0.
_RECORD_VERSIONS: Final[dict[type[Message], tuple[tuple[int, int], ...]]] = {
    r.PartitionRecord: ((23, 2), (17, 1)),
    r.PartitionChangeRecord: ((23, 2), (17, 1)),
    r.RegisterBrokerRecord: ((30, 4), (17, 3), (8, 2), (7, 1)),
    r.BrokerRegistrationChangeRecord: ((30, 3), (17, 2), (7, 1)),
}


def supported_features(*, unstable: bool) -> dict[str, tuple[int, int]]:
    """The levels that a node supports; `unstable` includes levels that may still change."""
    if not unstable:
        return SUPPORTED_FEATURES
    return {**SUPPORTED_FEATURES, METADATA_VERSION: (METADATA_VERSION_MIN, METADATA_VERSION_UNSTABLE)}


def metadata_version_name(level: int) -> str:
    return _NAMES.get(level, f"level {level}")


def metadata_version_of(name: str) -> int | None:
    """The level of a release (`4.2`: its last level) or of a level name (`4.2-IV0`); None if it is unknown here."""
    fitting = [
        level for level, level_name in _NAMES.items() if level_name == name or level_name.startswith(f"{name}-IV")
    ]
    return max((level for level in fitting if level <= METADATA_VERSION_LATEST), default=None)


def feature_levels_at(metadata_version: int) -> dict[str, int]:
    """The default feature levels of a `metadata.version`: Apache Kafka formats a cluster of that version with them."""
    levels = {METADATA_VERSION: metadata_version}
    for name, since in _FEATURES_SINCE.items():
        for first, level in since:
            if metadata_version >= first:
                levels[name] = level
    return levels


def feature_dependencies(name: str, level: int) -> tuple[tuple[str, int], ...]:
    return _DEPENDENCIES.get((name, level), ())


def loses_metadata(*, present: int, wanted: int) -> bool:
    """True if a log written at the present level may contain records that the lower level cannot express."""
    return any(wanted < level <= present for level in _CHANGING_LEVELS)


def record_version(record_type: type[Message], metadata_version: int) -> int:
    """The newest version of a record that the finalised level allows."""
    for level, version in _RECORD_VERSIONS.get(record_type, ()):
        if metadata_version >= level:
            return version
    return 0


def encode_for(record: Message, metadata_version: int) -> bytes:
    """The framed bytes of a record in the version that the finalised level allows."""
    return encode_record(record, record_version(type(record), metadata_version))
