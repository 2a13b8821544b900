"""Valid topic names, and the internal topics of the cluster."""

from __future__ import annotations

from ottla.model.errors import ErrorCode, KafkaError

__all__ = ["CLUSTER_METADATA_TOPIC", "INTERNAL_TOPICS", "TOPIC_NAME_LENGTH_MAX", "check_topic_name", "is_internal"]

CLUSTER_METADATA_TOPIC = "__cluster_metadata"
INTERNAL_TOPICS = frozenset(("__consumer_offsets", "__transaction_state", "__share_group_state"))

# The name of a partition directory consists of topic and partition, and file systems allow 255 bytes.
TOPIC_NAME_LENGTH_MAX = 249

_ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def is_internal(name: str) -> bool:
    return name in INTERNAL_TOPICS


def check_topic_name(name: str) -> None:
    """Raises INVALID_TOPIC_EXCEPTION for an invalid name."""
    if not name:
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, "the topic name is empty")
    if name in (".", ".."):
        raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"the topic name {name!r} is reserved by file systems")
    if len(name) > TOPIC_NAME_LENGTH_MAX:
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"the topic name has {len(name)} characters; at most {TOPIC_NAME_LENGTH_MAX} are allowed",
        )
    if not _ALLOWED.issuperset(name):
        raise KafkaError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"the topic name {name!r} contains characters other than ASCII letters, digits, '.', '_' and '-'",
        )
