"""The records of `__consumer_offsets`, and the versions of their values."""

from __future__ import annotations

from ottla.coordinator.runtime import RecordFormat
from ottla.wire.message import Message
from ottla.wire.messages.group_records import KEY_CLASSES, VALUE_CLASSES, GroupMetadataValue, OffsetCommitValue

__all__ = ["GROUP_RECORDS"]

# The highest versions that are not flexible. Apache Kafka writes them too, so that its older releases can read them.
_GROUP_METADATA_VERSION = 3
_OFFSET_COMMIT_VERSION = 3
_OFFSET_COMMIT_VERSION_WITH_EXPIRY = 1
_OFFSET_COMMIT_VERSION_WITH_TOPIC_ID = 4


def _value_version(value: Message) -> int:
    if isinstance(value, OffsetCommitValue):
        if value.expire_timestamp != -1:
            return _OFFSET_COMMIT_VERSION_WITH_EXPIRY
        return _OFFSET_COMMIT_VERSION_WITH_TOPIC_ID if value.topic_id else _OFFSET_COMMIT_VERSION
    if isinstance(value, GroupMetadataValue):
        return _GROUP_METADATA_VERSION
    return value.VERSIONS[1]


GROUP_RECORDS = RecordFormat(KEY_CLASSES, VALUE_CLASSES, _value_version)
