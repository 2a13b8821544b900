# Written by tools/generate_messages.py from definitions/group_records.txt: change the definition, not this file.
"""Group records.

Keys and values of __consumer_offsets.
The number of a key is the version in its first two bytes. A value begins with its own version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Structure

if TYPE_CHECKING:
    from ottla.wire.message import Buffer

__all__ = [
    "ClassicMemberMetadata",
    "ClassicProtocol",
    "ConsumerGroupCurrentMemberAssignmentKey",
    "ConsumerGroupCurrentMemberAssignmentValue",
    "ConsumerGroupMemberMetadataKey",
    "ConsumerGroupMemberMetadataValue",
    "ConsumerGroupMetadataKey",
    "ConsumerGroupMetadataValue",
    "ConsumerGroupPartitionMetadataKey",
    "ConsumerGroupPartitionMetadataValue",
    "ConsumerGroupRegularExpressionKey",
    "ConsumerGroupRegularExpressionValue",
    "ConsumerGroupTargetAssignmentMemberKey",
    "ConsumerGroupTargetAssignmentMemberValue",
    "ConsumerGroupTargetAssignmentMetadataKey",
    "ConsumerGroupTargetAssignmentMetadataValue",
    "ConsumerTopicPartitions",
    "CopartitionGroup",
    "Endpoint",
    "GroupMetadataKey",
    "GroupMetadataValue",
    "KEY_CLASSES",
    "KeyValue",
    "LastAssignmentConfig",
    "LegacyOffsetCommitKey",
    "LegacyOffsetCommitValue",
    "MemberMetadata",
    "OffsetCommitKey",
    "OffsetCommitValue",
    "PartitionMetadata",
    "ShareGroupCurrentMemberAssignmentKey",
    "ShareGroupCurrentMemberAssignmentValue",
    "ShareGroupMemberMetadataKey",
    "ShareGroupMemberMetadataValue",
    "ShareGroupMetadataKey",
    "ShareGroupMetadataValue",
    "ShareGroupStatePartitionMetadataKey",
    "ShareGroupStatePartitionMetadataValue",
    "ShareGroupTargetAssignmentMemberKey",
    "ShareGroupTargetAssignmentMemberValue",
    "ShareGroupTargetAssignmentMetadataKey",
    "ShareGroupTargetAssignmentMetadataValue",
    "ShareTopicInfo",
    "ShareTopicPartitions",
    "StreamsCurrentTaskIds",
    "StreamsGroupCurrentMemberAssignmentKey",
    "StreamsGroupCurrentMemberAssignmentValue",
    "StreamsGroupMemberMetadataKey",
    "StreamsGroupMemberMetadataValue",
    "StreamsGroupMetadataKey",
    "StreamsGroupMetadataValue",
    "StreamsGroupTargetAssignmentMemberKey",
    "StreamsGroupTargetAssignmentMemberValue",
    "StreamsGroupTargetAssignmentMetadataKey",
    "StreamsGroupTargetAssignmentMetadataValue",
    "StreamsGroupTopologyKey",
    "StreamsGroupTopologyValue",
    "StreamsTargetTaskIds",
    "StreamsTopicInfo",
    "Subtopology",
    "TopicConfig",
    "TopicMetadata",
    "TopicPartition",
    "TopicPartitionsInfo",
    "VALUE_CLASSES",
]


class TopicPartition(Structure):
    """Shared by several fields."""

    __slots__ = ("topic_id", "partitions")

    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, 0, False),
        ("partitions", "[int32]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_id: Uuid = Uuid.ZERO,
        partitions: list[int] = EMPTY,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is EMPTY else partitions


class MemberMetadata(Structure):
    """Shared by several fields."""

    __slots__ = (
        "member_id",
        "group_instance_id",
        "client_id",
        "client_host",
        "rebalance_timeout",
        "session_timeout",
        "subscription",
        "assignment",
    )

    FIELDS = (
        ("member_id", "string", (0, 32767), None, None, "", False),
        ("group_instance_id", "string", (3, 32767), (0, 32767), None, None, True),
        ("client_id", "string", (0, 32767), None, None, "", False),
        ("client_host", "string", (0, 32767), None, None, "", False),
        ("rebalance_timeout", "int32", (1, 32767), None, None, -1, True),
        ("session_timeout", "int32", (0, 32767), None, None, 0, False),
        ("subscription", "bytes", (0, 32767), None, None, b"", False),
        ("assignment", "bytes", (0, 32767), None, None, b"", False),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        rebalance_timeout: int = -1,
        session_timeout: int = 0,
        subscription: Buffer = b"",
        assignment: Buffer = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout = rebalance_timeout
        self.session_timeout = session_timeout
        self.subscription = subscription
        self.assignment = assignment


class ConsumerTopicPartitions(Structure):
    """Shared by several fields."""

    __slots__ = ("topic_id", "partitions", "assignment_epochs")

    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, 0, False),
        ("partitions", "[int32]", (0, 32767), None, None, (), False),
        ("assignment_epochs", "[int32]", (0, 32767), (0, 32767), 0, (), False),
    )

    def __init__(
        self,
        *,
        topic_id: Uuid = Uuid.ZERO,
        partitions: list[int] = EMPTY,
        assignment_epochs: list[int] | None = EMPTY,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is EMPTY else partitions
        self.assignment_epochs = [] if assignment_epochs is EMPTY else assignment_epochs


class ShareTopicPartitions(Structure):
    """Shared by several fields."""

    __slots__ = ("topic_id", "partitions")

    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, 0, False),
        ("partitions", "[int32]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_id: Uuid = Uuid.ZERO,
        partitions: list[int] = EMPTY,
    ) -> None:
        self.topic_id = topic_id
        self.partitions = [] if partitions is EMPTY else partitions


class TopicPartitionsInfo(Structure):
    """Shared by several fields."""

    __slots__ = ("topic_id", "topic_name", "partitions")

    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, 0, False),
        ("topic_name", "string", (0, 32767), None, None, "", False),
        ("partitions", "[int32]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_id: Uuid = Uuid.ZERO,
        topic_name: str = "",
        partitions: list[int] = EMPTY,
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.partitions = [] if partitions is EMPTY else partitions


class ShareTopicInfo(Structure):
    """Shared by several fields."""

    __slots__ = ("topic_id", "topic_name")

    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, 0, False),
        ("topic_name", "string", (0, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        topic_id: Uuid = Uuid.ZERO,
        topic_name: str = "",
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name


class LastAssignmentConfig(Structure):
    """Shared by several fields."""

    __slots__ = ("key", "value")

    FIELDS = (
        ("key", "string", (0, 32767), None, None, "", False),
        ("value", "string", (0, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        key: str = "",
        value: str = "",
    ) -> None:
        self.key = key
        self.value = value


class Endpoint(Structure):
    """Shared by several fields."""

    __slots__ = ("host", "port")

    FIELDS = (
        ("host", "string", (0, 32767), None, None, "", False),
        ("port", "uint16", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        host: str = "",
        port: int = 0,
    ) -> None:
        self.host = host
        self.port = port


class KeyValue(Structure):
    """Shared by several fields."""

    __slots__ = ("key", "value")

    FIELDS = (
        ("key", "string", (0, 32767), None, None, "", False),
        ("value", "string", (0, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        key: str = "",
        value: str = "",
    ) -> None:
        self.key = key
        self.value = value


class StreamsTargetTaskIds(Structure):
    """Shared by several fields."""

    __slots__ = ("subtopology_id", "partitions")

    FIELDS = (
        ("subtopology_id", "string", (0, 32767), None, None, "", False),
        ("partitions", "[int32]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        partitions: list[int] = EMPTY,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partitions = [] if partitions is EMPTY else partitions


class StreamsCurrentTaskIds(Structure):
    """Shared by several fields."""

    __slots__ = ("subtopology_id", "partitions", "assignment_epochs")

    FIELDS = (
        ("subtopology_id", "string", (0, 32767), None, None, "", False),
        ("partitions", "[int32]", (0, 32767), None, None, (), False),
        ("assignment_epochs", "[int32]", (0, 32767), (0, 32767), 0, (), False),
    )

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        partitions: list[int] = EMPTY,
        assignment_epochs: list[int] | None = EMPTY,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partitions = [] if partitions is EMPTY else partitions
        self.assignment_epochs = [] if assignment_epochs is EMPTY else assignment_epochs


class TopicConfig(Structure):
    """Shared by several fields."""

    __slots__ = ("key", "value")

    FIELDS = (
        ("key", "string", (0, 32767), None, None, "", False),
        ("value", "string", (0, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        key: str = "",
        value: str = "",
    ) -> None:
        self.key = key
        self.value = value


class StreamsTopicInfo(Structure):
    """Shared by several fields."""

    __slots__ = ("name", "partitions", "replication_factor", "topic_configs")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("partitions", "int32", (0, 32767), None, None, 0, False),
        ("replication_factor", "int16", (0, 32767), None, None, 0, False),
        ("topic_configs", "[TopicConfig]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: int = 0,
        replication_factor: int = 0,
        topic_configs: list[TopicConfig] = EMPTY,
    ) -> None:
        self.name = name
        self.partitions = partitions
        self.replication_factor = replication_factor
        self.topic_configs = [] if topic_configs is EMPTY else topic_configs


class LegacyOffsetCommitKey(Message):
    """Key type 0, version 0."""

    __slots__ = ("group", "topic", "partition")

    API_KEY = 0
    VERSIONS = (0, 0)
    FIELDS = (
        ("group", "string", (0, 32767), None, None, "", False),
        ("topic", "string", (0, 32767), None, None, "", False),
        ("partition", "int32", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        group: str = "",
        topic: str = "",
        partition: int = 0,
    ) -> None:
        self.group = group
        self.topic = topic
        self.partition = partition


class LegacyOffsetCommitValue(Message):
    """Value of key type 0, version 0."""

    __slots__ = ("offset", "metadata", "commit_timestamp")

    API_KEY = 0
    VERSIONS = (0, 0)
    FIELDS = (
        ("offset", "int64", (0, 32767), None, None, 0, False),
        ("metadata", "string", (0, 32767), None, None, "", False),
        ("commit_timestamp", "int64", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        offset: int = 0,
        metadata: str = "",
        commit_timestamp: int = 0,
    ) -> None:
        self.offset = offset
        self.metadata = metadata
        self.commit_timestamp = commit_timestamp


class OffsetCommitKey(Message):
    """Key type 1, version 0."""

    __slots__ = ("group", "topic", "partition")

    API_KEY = 1
    VERSIONS = (0, 0)
    FIELDS = (
        ("group", "string", (0, 32767), None, None, "", False),
        ("topic", "string", (0, 32767), None, None, "", False),
        ("partition", "int32", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        group: str = "",
        topic: str = "",
        partition: int = 0,
    ) -> None:
        self.group = group
        self.topic = topic
        self.partition = partition


class OffsetCommitValue(Message):
    """Value of key type 1, versions 0 to 4, flexible since 4."""

    __slots__ = ("offset", "leader_epoch", "metadata", "commit_timestamp", "expire_timestamp", "topic_id")

    API_KEY = 1
    VERSIONS = (0, 4)
    FLEXIBLE_SINCE = 4
    FIELDS = (
        ("offset", "int64", (0, 32767), None, None, 0, False),
        ("leader_epoch", "int32", (3, 32767), None, None, -1, True),
        ("metadata", "string", (0, 32767), None, None, "", False),
        ("commit_timestamp", "int64", (0, 32767), None, None, 0, False),
        ("expire_timestamp", "int64", (1, 1), None, None, -1, True),
        ("topic_id", "uuid", (4, 32767), None, 0, 0, True),
    )

    def __init__(
        self,
        *,
        offset: int = 0,
        leader_epoch: int = -1,
        metadata: str = "",
        commit_timestamp: int = 0,
        expire_timestamp: int = -1,
        topic_id: Uuid = Uuid.ZERO,
    ) -> None:
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.metadata = metadata
        self.commit_timestamp = commit_timestamp
        self.expire_timestamp = expire_timestamp
        self.topic_id = topic_id


class GroupMetadataKey(Message):
    """Key type 2, version 0."""

    __slots__ = ("group",)

    API_KEY = 2
    VERSIONS = (0, 0)
    FIELDS = (("group", "string", (0, 32767), None, None, "", False),)

    def __init__(
        self,
        *,
        group: str = "",
    ) -> None:
        self.group = group


class GroupMetadataValue(Message):
    """Value of key type 2, versions 0 to 4, flexible since 4."""

    __slots__ = ("protocol_type", "generation", "protocol", "leader", "current_state_timestamp", "members")

    API_KEY = 2
    VERSIONS = (0, 4)
    FLEXIBLE_SINCE = 4
    FIELDS = (
        ("protocol_type", "string", (0, 32767), None, None, "", False),
        ("generation", "int32", (0, 32767), None, None, 0, False),
        ("protocol", "string", (0, 32767), (0, 32767), None, "", False),
        ("leader", "string", (0, 32767), (0, 32767), None, "", False),
        ("current_state_timestamp", "int64", (2, 32767), None, None, -1, True),
        ("members", "[MemberMetadata]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        protocol_type: str = "",
        generation: int = 0,
        protocol: str | None = "",
        leader: str | None = "",
        current_state_timestamp: int = -1,
        members: list[MemberMetadata] = EMPTY,
    ) -> None:
        self.protocol_type = protocol_type
        self.generation = generation
        self.protocol = protocol
        self.leader = leader
        self.current_state_timestamp = current_state_timestamp
        self.members = [] if members is EMPTY else members


class ConsumerGroupMetadataKey(Message):
    """Key type 3, version 0."""

    __slots__ = ("group_id",)

    API_KEY = 3
    VERSIONS = (0, 0)
    FIELDS = (("group_id", "string", (0, 32767), None, None, "", False),)

    def __init__(
        self,
        *,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id


class ConsumerGroupMetadataValue(Message):
    """Value of key type 3, version 0, flexible."""

    __slots__ = ("epoch", "metadata_hash")

    API_KEY = 3
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("epoch", "int32", (0, 32767), None, None, 0, False),
        ("metadata_hash", "int64", (0, 32767), None, 0, 0, False),
    )

    def __init__(
        self,
        *,
        epoch: int = 0,
        metadata_hash: int = 0,
    ) -> None:
        self.epoch = epoch
        self.metadata_hash = metadata_hash


class ConsumerGroupPartitionMetadataKey(Message):
    """Key type 4, version 0."""

    __slots__ = ("group_id",)

    API_KEY = 4
    VERSIONS = (0, 0)
    FIELDS = (("group_id", "string", (0, 32767), None, None, "", False),)

    def __init__(
        self,
        *,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id


class PartitionMetadata(Structure):
    """An element of `TopicMetadata.partition_metadata`."""

    __slots__ = ("partition", "racks")

    FIELDS = (
        ("partition", "int32", (0, 32767), None, None, 0, False),
        ("racks", "[string]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        partition: int = 0,
        racks: list[str] = EMPTY,
    ) -> None:
        self.partition = partition
        self.racks = [] if racks is EMPTY else racks


class TopicMetadata(Structure):
    """An element of `ConsumerGroupPartitionMetadataValue.topics`."""

    __slots__ = ("topic_id", "topic_name", "num_partitions", "partition_metadata")

    FIELDS = (
        ("topic_id", "uuid", (0, 32767), None, None, 0, False),
        ("topic_name", "string", (0, 32767), None, None, "", False),
        ("num_partitions", "int32", (0, 32767), None, None, 0, False),
        ("partition_metadata", "[PartitionMetadata]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic_id: Uuid = Uuid.ZERO,
        topic_name: str = "",
        num_partitions: int = 0,
        partition_metadata: list[PartitionMetadata] = EMPTY,
    ) -> None:
        self.topic_id = topic_id
        self.topic_name = topic_name
        self.num_partitions = num_partitions
        self.partition_metadata = [] if partition_metadata is EMPTY else partition_metadata


class ConsumerGroupPartitionMetadataValue(Message):
    """Value of key type 4, version 0, flexible."""

    __slots__ = ("topics",)

    API_KEY = 4
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (("topics", "[TopicMetadata]", (0, 32767), None, None, (), False),)

    def __init__(
        self,
        *,
        topics: list[TopicMetadata] = EMPTY,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics


class ConsumerGroupMemberMetadataKey(Message):
    """Key type 5, version 0."""

    __slots__ = ("group_id", "member_id")

    API_KEY = 5
    VERSIONS = (0, 0)
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("member_id", "string", (0, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id


class ClassicProtocol(Structure):
    """An element of `ClassicMemberMetadata.supported_protocols`."""

    __slots__ = ("name", "metadata")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("metadata", "bytes", (0, 32767), None, None, b"", False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        metadata: Buffer = b"",
    ) -> None:
        self.name = name
        self.metadata = metadata


class ClassicMemberMetadata(Structure):
    """The value of `ConsumerGroupMemberMetadataValue.classic_member_metadata`."""

    __slots__ = ("session_timeout_ms", "supported_protocols")

    FIELDS = (
        ("session_timeout_ms", "int32", (0, 32767), None, None, 0, False),
        ("supported_protocols", "[ClassicProtocol]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        session_timeout_ms: int = 0,
        supported_protocols: list[ClassicProtocol] = EMPTY,
    ) -> None:
        self.session_timeout_ms = session_timeout_ms
        self.supported_protocols = [] if supported_protocols is EMPTY else supported_protocols


class ConsumerGroupMemberMetadataValue(Message):
    """Value of key type 5, version 0, flexible."""

    __slots__ = (
        "instance_id",
        "rack_id",
        "client_id",
        "client_host",
        "subscribed_topic_names",
        "subscribed_topic_regex",
        "rebalance_timeout_ms",
        "server_assignor",
        "classic_member_metadata",
    )

    API_KEY = 5
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("instance_id", "string", (0, 32767), (0, 32767), None, "", False),
        ("rack_id", "string", (0, 32767), (0, 32767), None, "", False),
        ("client_id", "string", (0, 32767), None, None, "", False),
        ("client_host", "string", (0, 32767), None, None, "", False),
        ("subscribed_topic_names", "[string]", (0, 32767), None, None, (), False),
        ("subscribed_topic_regex", "string", (0, 32767), (0, 32767), None, "", False),
        ("rebalance_timeout_ms", "int32", (0, 32767), None, None, -1, False),
        ("server_assignor", "string", (0, 32767), (0, 32767), None, "", False),
        ("classic_member_metadata", "ClassicMemberMetadata", (0, 32767), (0, 32767), 0, (), False),
    )

    def __init__(
        self,
        *,
        instance_id: str | None = "",
        rack_id: str | None = "",
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] = EMPTY,
        subscribed_topic_regex: str | None = "",
        rebalance_timeout_ms: int = -1,
        server_assignor: str | None = "",
        classic_member_metadata: ClassicMemberMetadata | None = EMPTY,
    ) -> None:
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = [] if subscribed_topic_names is EMPTY else subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.server_assignor = server_assignor
        self.classic_member_metadata = (
            ClassicMemberMetadata() if classic_member_metadata is EMPTY else classic_member_metadata
        )


class ConsumerGroupTargetAssignmentMetadataKey(Message):
    """Key type 6, version 0."""

    __slots__ = ("group_id",)

    API_KEY = 6
    VERSIONS = (0, 0)
    FIELDS = (("group_id", "string", (0, 32767), None, None, "", False),)

    def __init__(
        self,
        *,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id


class ConsumerGroupTargetAssignmentMetadataValue(Message):
    """Value of key type 6, version 0, flexible."""

    __slots__ = ("assignment_epoch", "assignment_timestamp")

    API_KEY = 6
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("assignment_epoch", "int32", (0, 32767), None, None, 0, False),
        ("assignment_timestamp", "int64", (0, 32767), None, 0, 0, True),
    )

    def __init__(
        self,
        *,
        assignment_epoch: int = 0,
        assignment_timestamp: int = 0,
    ) -> None:
        self.assignment_epoch = assignment_epoch
        self.assignment_timestamp = assignment_timestamp


class ConsumerGroupTargetAssignmentMemberKey(Message):
    """Key type 7, version 0."""

    __slots__ = ("group_id", "member_id")

    API_KEY = 7
    VERSIONS = (0, 0)
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("member_id", "string", (0, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id


class ConsumerGroupTargetAssignmentMemberValue(Message):
    """Value of key type 7, version 0, flexible."""

    __slots__ = ("topic_partitions",)

    API_KEY = 7
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (("topic_partitions", "[TopicPartition]", (0, 32767), None, None, (), False),)

    def __init__(
        self,
        *,
        topic_partitions: list[TopicPartition] = EMPTY,
    ) -> None:
        self.topic_partitions = [] if topic_partitions is EMPTY else topic_partitions


class ConsumerGroupCurrentMemberAssignmentKey(Message):
    """Key type 8, version 0."""

    __slots__ = ("group_id", "member_id")

    API_KEY = 8
    VERSIONS = (0, 0)
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("member_id", "string", (0, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id


class ConsumerGroupCurrentMemberAssignmentValue(Message):
    """Value of key type 8, version 0, flexible."""

    __slots__ = (
        "member_epoch",
        "previous_member_epoch",
        "state",
        "assigned_partitions",
        "partitions_pending_revocation",
    )

    API_KEY = 8
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("member_epoch", "int32", (0, 32767), None, None, 0, False),
        ("previous_member_epoch", "int32", (0, 32767), None, None, 0, False),
        ("state", "int8", (0, 32767), None, None, 0, False),
        ("assigned_partitions", "[ConsumerTopicPartitions]", (0, 32767), None, None, (), False),
        ("partitions_pending_revocation", "[ConsumerTopicPartitions]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        member_epoch: int = 0,
        previous_member_epoch: int = 0,
        state: int = 0,
        assigned_partitions: list[ConsumerTopicPartitions] = EMPTY,
        partitions_pending_revocation: list[ConsumerTopicPartitions] = EMPTY,
    ) -> None:
        self.member_epoch = member_epoch
        self.previous_member_epoch = previous_member_epoch
        self.state = state
        self.assigned_partitions = [] if assigned_partitions is EMPTY else assigned_partitions
        self.partitions_pending_revocation = (
            [] if partitions_pending_revocation is EMPTY else partitions_pending_revocation
        )


class ShareGroupMemberMetadataKey(Message):
    """Key type 10, version 0."""

    __slots__ = ("group_id", "member_id")

    API_KEY = 10
    VERSIONS = (0, 0)
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("member_id", "string", (0, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id


class ShareGroupMemberMetadataValue(Message):
    """Value of key type 10, version 0, flexible."""

    __slots__ = ("rack_id", "client_id", "client_host", "subscribed_topic_names")

    API_KEY = 10
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("rack_id", "string", (0, 32767), (0, 32767), None, "", False),
        ("client_id", "string", (0, 32767), None, None, "", False),
        ("client_host", "string", (0, 32767), None, None, "", False),
        ("subscribed_topic_names", "[string]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        rack_id: str | None = "",
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: list[str] = EMPTY,
    ) -> None:
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = [] if subscribed_topic_names is EMPTY else subscribed_topic_names


class ShareGroupMetadataKey(Message):
    """Key type 11, version 0."""

    __slots__ = ("group_id",)

    API_KEY = 11
    VERSIONS = (0, 0)
    FIELDS = (("group_id", "string", (0, 32767), None, None, "", False),)

    def __init__(
        self,
        *,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id


class ShareGroupMetadataValue(Message):
    """Value of key type 11, version 0, flexible."""

    __slots__ = ("epoch", "metadata_hash")

    API_KEY = 11
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("epoch", "int32", (0, 32767), None, None, 0, False),
        ("metadata_hash", "int64", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        epoch: int = 0,
        metadata_hash: int = 0,
    ) -> None:
        self.epoch = epoch
        self.metadata_hash = metadata_hash


class ShareGroupTargetAssignmentMetadataKey(Message):
    """Key type 12, version 0."""

    __slots__ = ("group_id",)

    API_KEY = 12
    VERSIONS = (0, 0)
    FIELDS = (("group_id", "string", (0, 32767), None, None, "", False),)

    def __init__(
        self,
        *,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id


class ShareGroupTargetAssignmentMetadataValue(Message):
    """Value of key type 12, version 0, flexible."""

    __slots__ = ("assignment_epoch", "assignment_timestamp")

    API_KEY = 12
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("assignment_epoch", "int32", (0, 32767), None, None, 0, False),
        ("assignment_timestamp", "int64", (0, 32767), None, 0, 0, True),
    )

    def __init__(
        self,
        *,
        assignment_epoch: int = 0,
        assignment_timestamp: int = 0,
    ) -> None:
        self.assignment_epoch = assignment_epoch
        self.assignment_timestamp = assignment_timestamp


class ShareGroupTargetAssignmentMemberKey(Message):
    """Key type 13, version 0."""

    __slots__ = ("group_id", "member_id")

    API_KEY = 13
    VERSIONS = (0, 0)
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("member_id", "string", (0, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id


class ShareGroupTargetAssignmentMemberValue(Message):
    """Value of key type 13, version 0, flexible."""

    __slots__ = ("topic_partitions",)

    API_KEY = 13
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (("topic_partitions", "[TopicPartition]", (0, 32767), None, None, (), False),)

    def __init__(
        self,
        *,
        topic_partitions: list[TopicPartition] = EMPTY,
    ) -> None:
        self.topic_partitions = [] if topic_partitions is EMPTY else topic_partitions


class ShareGroupCurrentMemberAssignmentKey(Message):
    """Key type 14, version 0."""

    __slots__ = ("group_id", "member_id")

    API_KEY = 14
    VERSIONS = (0, 0)
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("member_id", "string", (0, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id


class ShareGroupCurrentMemberAssignmentValue(Message):
    """Value of key type 14, version 0, flexible."""

    __slots__ = ("member_epoch", "previous_member_epoch", "state", "assigned_partitions")

    API_KEY = 14
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("member_epoch", "int32", (0, 32767), None, None, 0, False),
        ("previous_member_epoch", "int32", (0, 32767), None, None, 0, False),
        ("state", "int8", (0, 32767), None, None, 0, False),
        ("assigned_partitions", "[ShareTopicPartitions]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        member_epoch: int = 0,
        previous_member_epoch: int = 0,
        state: int = 0,
        assigned_partitions: list[ShareTopicPartitions] = EMPTY,
    ) -> None:
        self.member_epoch = member_epoch
        self.previous_member_epoch = previous_member_epoch
        self.state = state
        self.assigned_partitions = [] if assigned_partitions is EMPTY else assigned_partitions


class ShareGroupStatePartitionMetadataKey(Message):
    """Key type 15, version 0."""

    __slots__ = ("group_id",)

    API_KEY = 15
    VERSIONS = (0, 0)
    FIELDS = (("group_id", "string", (0, 32767), None, None, "", False),)

    def __init__(
        self,
        *,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id


class ShareGroupStatePartitionMetadataValue(Message):
    """Value of key type 15, version 0, flexible."""

    __slots__ = ("initializing_topics", "initialized_topics", "deleting_topics")

    API_KEY = 15
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("initializing_topics", "[TopicPartitionsInfo]", (0, 32767), None, None, (), False),
        ("initialized_topics", "[TopicPartitionsInfo]", (0, 32767), None, None, (), False),
        ("deleting_topics", "[ShareTopicInfo]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        initializing_topics: list[TopicPartitionsInfo] = EMPTY,
        initialized_topics: list[TopicPartitionsInfo] = EMPTY,
        deleting_topics: list[ShareTopicInfo] = EMPTY,
    ) -> None:
        self.initializing_topics = [] if initializing_topics is EMPTY else initializing_topics
        self.initialized_topics = [] if initialized_topics is EMPTY else initialized_topics
        self.deleting_topics = [] if deleting_topics is EMPTY else deleting_topics


class ConsumerGroupRegularExpressionKey(Message):
    """Key type 16, version 0."""

    __slots__ = ("group_id", "regular_expression")

    API_KEY = 16
    VERSIONS = (0, 0)
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("regular_expression", "string", (0, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        regular_expression: str = "",
    ) -> None:
        self.group_id = group_id
        self.regular_expression = regular_expression


class ConsumerGroupRegularExpressionValue(Message):
    """Value of key type 16, version 0, flexible."""

    __slots__ = ("topics", "version", "timestamp")

    API_KEY = 16
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("topics", "[string]", (0, 32767), None, None, (), False),
        ("version", "int64", (0, 32767), None, None, 0, False),
        ("timestamp", "int64", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        topics: list[str] = EMPTY,
        version: int = 0,
        timestamp: int = 0,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics
        self.version = version
        self.timestamp = timestamp


class StreamsGroupMetadataKey(Message):
    """Key type 17, version 0."""

    __slots__ = ("group_id",)

    API_KEY = 17
    VERSIONS = (0, 0)
    FIELDS = (("group_id", "string", (0, 32767), None, None, "", False),)

    def __init__(
        self,
        *,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id


class StreamsGroupMetadataValue(Message):
    """Value of key type 17, version 0, flexible."""

    __slots__ = ("epoch", "metadata_hash", "validated_topology_epoch", "last_assignment_configs")

    API_KEY = 17
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("epoch", "int32", (0, 32767), None, None, 0, False),
        ("metadata_hash", "int64", (0, 32767), None, None, 0, False),
        ("validated_topology_epoch", "int32", (0, 32767), None, 0, -1, False),
        ("last_assignment_configs", "[LastAssignmentConfig]", (0, 32767), (0, 32767), 1, (), False),
    )

    def __init__(
        self,
        *,
        epoch: int = 0,
        metadata_hash: int = 0,
        validated_topology_epoch: int = -1,
        last_assignment_configs: list[LastAssignmentConfig] | None = EMPTY,
    ) -> None:
        self.epoch = epoch
        self.metadata_hash = metadata_hash
        self.validated_topology_epoch = validated_topology_epoch
        self.last_assignment_configs = [] if last_assignment_configs is EMPTY else last_assignment_configs


class StreamsGroupMemberMetadataKey(Message):
    """Key type 19, version 0."""

    __slots__ = ("group_id", "member_id")

    API_KEY = 19
    VERSIONS = (0, 0)
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("member_id", "string", (0, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id


class StreamsGroupMemberMetadataValue(Message):
    """Value of key type 19, version 0, flexible."""

    __slots__ = (
        "instance_id",
        "rack_id",
        "client_id",
        "client_host",
        "rebalance_timeout_ms",
        "topology_epoch",
        "process_id",
        "user_endpoint",
        "client_tags",
    )

    API_KEY = 19
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("instance_id", "string", (0, 32767), (0, 32767), None, "", False),
        ("rack_id", "string", (0, 32767), (0, 32767), None, "", False),
        ("client_id", "string", (0, 32767), None, None, "", False),
        ("client_host", "string", (0, 32767), None, None, "", False),
        ("rebalance_timeout_ms", "int32", (0, 32767), None, None, -1, False),
        ("topology_epoch", "int32", (0, 32767), None, None, 0, False),
        ("process_id", "string", (0, 32767), None, None, "", False),
        ("user_endpoint", "Endpoint", (0, 32767), (0, 32767), None, None, False),
        ("client_tags", "[KeyValue]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        instance_id: str | None = "",
        rack_id: str | None = "",
        client_id: str = "",
        client_host: str = "",
        rebalance_timeout_ms: int = -1,
        topology_epoch: int = 0,
        process_id: str = "",
        user_endpoint: Endpoint | None = None,
        client_tags: list[KeyValue] = EMPTY,
    ) -> None:
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.topology_epoch = topology_epoch
        self.process_id = process_id
        self.user_endpoint = user_endpoint
        self.client_tags = [] if client_tags is EMPTY else client_tags


class StreamsGroupTargetAssignmentMetadataKey(Message):
    """Key type 20, version 0."""

    __slots__ = ("group_id",)

    API_KEY = 20
    VERSIONS = (0, 0)
    FIELDS = (("group_id", "string", (0, 32767), None, None, "", False),)

    def __init__(
        self,
        *,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id


class StreamsGroupTargetAssignmentMetadataValue(Message):
    """Value of key type 20, version 0, flexible."""

    __slots__ = ("assignment_epoch", "assignment_timestamp")

    API_KEY = 20
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("assignment_epoch", "int32", (0, 32767), None, None, 0, False),
        ("assignment_timestamp", "int64", (0, 32767), None, 0, 0, True),
    )

    def __init__(
        self,
        *,
        assignment_epoch: int = 0,
        assignment_timestamp: int = 0,
    ) -> None:
        self.assignment_epoch = assignment_epoch
        self.assignment_timestamp = assignment_timestamp


class StreamsGroupTargetAssignmentMemberKey(Message):
    """Key type 21, version 0."""

    __slots__ = ("group_id", "member_id")

    API_KEY = 21
    VERSIONS = (0, 0)
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("member_id", "string", (0, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id


class StreamsGroupTargetAssignmentMemberValue(Message):
    """Value of key type 21, version 0, flexible."""

    __slots__ = ("active_tasks", "standby_tasks", "warmup_tasks")

    API_KEY = 21
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("active_tasks", "[StreamsTargetTaskIds]", (0, 32767), None, None, (), False),
        ("standby_tasks", "[StreamsTargetTaskIds]", (0, 32767), None, None, (), False),
        ("warmup_tasks", "[StreamsTargetTaskIds]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        active_tasks: list[StreamsTargetTaskIds] = EMPTY,
        standby_tasks: list[StreamsTargetTaskIds] = EMPTY,
        warmup_tasks: list[StreamsTargetTaskIds] = EMPTY,
    ) -> None:
        self.active_tasks = [] if active_tasks is EMPTY else active_tasks
        self.standby_tasks = [] if standby_tasks is EMPTY else standby_tasks
        self.warmup_tasks = [] if warmup_tasks is EMPTY else warmup_tasks


class StreamsGroupCurrentMemberAssignmentKey(Message):
    """Key type 22, version 0."""

    __slots__ = ("group_id", "member_id")

    API_KEY = 22
    VERSIONS = (0, 0)
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("member_id", "string", (0, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id


class StreamsGroupCurrentMemberAssignmentValue(Message):
    """Value of key type 22, version 0, flexible."""

    __slots__ = (
        "member_epoch",
        "previous_member_epoch",
        "state",
        "active_tasks",
        "standby_tasks",
        "warmup_tasks",
        "active_tasks_pending_revocation",
        "standby_tasks_pending_revocation",
        "warmup_tasks_pending_revocation",
    )

    API_KEY = 22
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("member_epoch", "int32", (0, 32767), None, None, 0, False),
        ("previous_member_epoch", "int32", (0, 32767), None, None, 0, False),
        ("state", "int8", (0, 32767), None, None, 0, False),
        ("active_tasks", "[StreamsCurrentTaskIds]", (0, 32767), None, None, (), False),
        ("standby_tasks", "[StreamsCurrentTaskIds]", (0, 32767), None, None, (), False),
        ("warmup_tasks", "[StreamsCurrentTaskIds]", (0, 32767), None, None, (), False),
        ("active_tasks_pending_revocation", "[StreamsCurrentTaskIds]", (0, 32767), None, None, (), False),
        ("standby_tasks_pending_revocation", "[StreamsCurrentTaskIds]", (0, 32767), None, None, (), False),
        ("warmup_tasks_pending_revocation", "[StreamsCurrentTaskIds]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        member_epoch: int = 0,
        previous_member_epoch: int = 0,
        state: int = 0,
        active_tasks: list[StreamsCurrentTaskIds] = EMPTY,
        standby_tasks: list[StreamsCurrentTaskIds] = EMPTY,
        warmup_tasks: list[StreamsCurrentTaskIds] = EMPTY,
        active_tasks_pending_revocation: list[StreamsCurrentTaskIds] = EMPTY,
        standby_tasks_pending_revocation: list[StreamsCurrentTaskIds] = EMPTY,
        warmup_tasks_pending_revocation: list[StreamsCurrentTaskIds] = EMPTY,
    ) -> None:
        self.member_epoch = member_epoch
        self.previous_member_epoch = previous_member_epoch
        self.state = state
        self.active_tasks = [] if active_tasks is EMPTY else active_tasks
        self.standby_tasks = [] if standby_tasks is EMPTY else standby_tasks
        self.warmup_tasks = [] if warmup_tasks is EMPTY else warmup_tasks
        self.active_tasks_pending_revocation = (
            [] if active_tasks_pending_revocation is EMPTY else active_tasks_pending_revocation
        )
        self.standby_tasks_pending_revocation = (
            [] if standby_tasks_pending_revocation is EMPTY else standby_tasks_pending_revocation
        )
        self.warmup_tasks_pending_revocation = (
            [] if warmup_tasks_pending_revocation is EMPTY else warmup_tasks_pending_revocation
        )


class StreamsGroupTopologyKey(Message):
    """Key type 23, version 0."""

    __slots__ = ("group_id",)

    API_KEY = 23
    VERSIONS = (0, 0)
    FIELDS = (("group_id", "string", (0, 32767), None, None, "", False),)

    def __init__(
        self,
        *,
        group_id: str = "",
    ) -> None:
        self.group_id = group_id


class CopartitionGroup(Structure):
    """An element of `Subtopology.copartition_groups`."""

    __slots__ = ("source_topics", "source_topic_regex", "repartition_source_topics")

    FIELDS = (
        ("source_topics", "[int16]", (0, 32767), None, None, (), False),
        ("source_topic_regex", "[int16]", (0, 32767), None, None, (), False),
        ("repartition_source_topics", "[int16]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        source_topics: list[int] = EMPTY,
        source_topic_regex: list[int] = EMPTY,
        repartition_source_topics: list[int] = EMPTY,
    ) -> None:
        self.source_topics = [] if source_topics is EMPTY else source_topics
        self.source_topic_regex = [] if source_topic_regex is EMPTY else source_topic_regex
        self.repartition_source_topics = [] if repartition_source_topics is EMPTY else repartition_source_topics


class Subtopology(Structure):
    """An element of `StreamsGroupTopologyValue.subtopologies`."""

    __slots__ = (
        "subtopology_id",
        "source_topics",
        "source_topic_regex",
        "state_changelog_topics",
        "repartition_sink_topics",
        "repartition_source_topics",
        "copartition_groups",
    )

    FIELDS = (
        ("subtopology_id", "string", (0, 32767), None, None, "", False),
        ("source_topics", "[string]", (0, 32767), None, None, (), False),
        ("source_topic_regex", "[string]", (0, 32767), None, None, (), False),
        ("state_changelog_topics", "[StreamsTopicInfo]", (0, 32767), None, None, (), False),
        ("repartition_sink_topics", "[string]", (0, 32767), None, None, (), False),
        ("repartition_source_topics", "[StreamsTopicInfo]", (0, 32767), None, None, (), False),
        ("copartition_groups", "[CopartitionGroup]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        source_topics: list[str] = EMPTY,
        source_topic_regex: list[str] = EMPTY,
        state_changelog_topics: list[StreamsTopicInfo] = EMPTY,
        repartition_sink_topics: list[str] = EMPTY,
        repartition_source_topics: list[StreamsTopicInfo] = EMPTY,
        copartition_groups: list[CopartitionGroup] = EMPTY,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.source_topics = [] if source_topics is EMPTY else source_topics
        self.source_topic_regex = [] if source_topic_regex is EMPTY else source_topic_regex
        self.state_changelog_topics = [] if state_changelog_topics is EMPTY else state_changelog_topics
        self.repartition_sink_topics = [] if repartition_sink_topics is EMPTY else repartition_sink_topics
        self.repartition_source_topics = [] if repartition_source_topics is EMPTY else repartition_source_topics
        self.copartition_groups = [] if copartition_groups is EMPTY else copartition_groups


class StreamsGroupTopologyValue(Message):
    """Value of key type 23, version 0, flexible."""

    __slots__ = ("epoch", "subtopologies")

    API_KEY = 23
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("epoch", "int32", (0, 32767), None, None, 0, False),
        ("subtopologies", "[Subtopology]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        epoch: int = 0,
        subtopologies: list[Subtopology] = EMPTY,
    ) -> None:
        self.epoch = epoch
        self.subtopologies = [] if subtopologies is EMPTY else subtopologies


KEY_CLASSES: dict[int, type[Message]] = {
    0: LegacyOffsetCommitKey,
    1: OffsetCommitKey,
    2: GroupMetadataKey,
    3: ConsumerGroupMetadataKey,
    4: ConsumerGroupPartitionMetadataKey,
    5: ConsumerGroupMemberMetadataKey,
    6: ConsumerGroupTargetAssignmentMetadataKey,
    7: ConsumerGroupTargetAssignmentMemberKey,
    8: ConsumerGroupCurrentMemberAssignmentKey,
    10: ShareGroupMemberMetadataKey,
    11: ShareGroupMetadataKey,
    12: ShareGroupTargetAssignmentMetadataKey,
    13: ShareGroupTargetAssignmentMemberKey,
    14: ShareGroupCurrentMemberAssignmentKey,
    15: ShareGroupStatePartitionMetadataKey,
    16: ConsumerGroupRegularExpressionKey,
    17: StreamsGroupMetadataKey,
    19: StreamsGroupMemberMetadataKey,
    20: StreamsGroupTargetAssignmentMetadataKey,
    21: StreamsGroupTargetAssignmentMemberKey,
    22: StreamsGroupCurrentMemberAssignmentKey,
    23: StreamsGroupTopologyKey,
}


VALUE_CLASSES: dict[int, type[Message]] = {
    0: LegacyOffsetCommitValue,
    1: OffsetCommitValue,
    2: GroupMetadataValue,
    3: ConsumerGroupMetadataValue,
    4: ConsumerGroupPartitionMetadataValue,
    5: ConsumerGroupMemberMetadataValue,
    6: ConsumerGroupTargetAssignmentMetadataValue,
    7: ConsumerGroupTargetAssignmentMemberValue,
    8: ConsumerGroupCurrentMemberAssignmentValue,
    10: ShareGroupMemberMetadataValue,
    11: ShareGroupMetadataValue,
    12: ShareGroupTargetAssignmentMetadataValue,
    13: ShareGroupTargetAssignmentMemberValue,
    14: ShareGroupCurrentMemberAssignmentValue,
    15: ShareGroupStatePartitionMetadataValue,
    16: ConsumerGroupRegularExpressionValue,
    17: StreamsGroupMetadataValue,
    19: StreamsGroupMemberMetadataValue,
    20: StreamsGroupTargetAssignmentMetadataValue,
    21: StreamsGroupTargetAssignmentMemberValue,
    22: StreamsGroupCurrentMemberAssignmentValue,
    23: StreamsGroupTopologyValue,
}
