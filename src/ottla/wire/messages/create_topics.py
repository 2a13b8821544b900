# Written by tools/generate_messages.py from definitions/19_create_topics.txt: change the definition, not this file.
"""CreateTopics, API key 19.

Creates topics. From 4 on -1 asks for the default partitions and replicas (KIP-464).
5 answers with the configuration (KIP-525), 6 may be throttled (KIP-599), 7 answers with topic ids.
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "CreatableReplicaAssignment",
    "CreatableTopic",
    "CreatableTopicConfig",
    "CreatableTopicConfigs",
    "CreatableTopicResult",
    "CreateTopicsRequest",
    "CreateTopicsResponse",
]


class CreatableReplicaAssignment(Structure):
    """An element of `CreatableTopic.assignments`."""

    __slots__ = ("partition_index", "broker_ids")

    FIELDS = (
        ("partition_index", "int32", (0, 32767), None, None, 0, False),
        ("broker_ids", "[int32]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        partition_index: int = 0,
        broker_ids: list[int] = EMPTY,
    ) -> None:
        self.partition_index = partition_index
        self.broker_ids = [] if broker_ids is EMPTY else broker_ids


class CreatableTopicConfig(Structure):
    """An element of `CreatableTopic.configs`."""

    __slots__ = ("name", "value")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("value", "string", (0, 32767), (0, 32767), None, "", False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
    ) -> None:
        self.name = name
        self.value = value


class CreatableTopic(Structure):
    """An element of `CreateTopicsRequest.topics`."""

    __slots__ = ("name", "num_partitions", "replication_factor", "assignments", "configs")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("num_partitions", "int32", (0, 32767), None, None, 0, False),
        ("replication_factor", "int16", (0, 32767), None, None, 0, False),
        ("assignments", "[CreatableReplicaAssignment]", (0, 32767), None, None, (), False),
        ("configs", "[CreatableTopicConfig]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        num_partitions: int = 0,
        replication_factor: int = 0,
        assignments: list[CreatableReplicaAssignment] = EMPTY,
        configs: list[CreatableTopicConfig] = EMPTY,
    ) -> None:
        self.name = name
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.assignments = [] if assignments is EMPTY else assignments
        self.configs = [] if configs is EMPTY else configs


class CreateTopicsRequest(Request["CreateTopicsResponse"]):
    """Request, versions 2 to 7, flexible since 5."""

    __slots__ = ("topics", "timeout_ms", "validate_only")

    API_KEY = 19
    VERSIONS = (2, 7)
    FLEXIBLE_SINCE = 5
    FIELDS = (
        ("topics", "[CreatableTopic]", (0, 32767), None, None, (), False),
        ("timeout_ms", "int32", (0, 32767), None, None, 60000, False),
        ("validate_only", "bool", (0, 32767), None, None, False, False),
    )

    def __init__(
        self,
        *,
        topics: list[CreatableTopic] = EMPTY,
        timeout_ms: int = 60000,
        validate_only: bool = False,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics
        self.timeout_ms = timeout_ms
        self.validate_only = validate_only


class CreatableTopicConfigs(Structure):
    """An element of `CreatableTopicResult.configs`."""

    __slots__ = ("name", "value", "read_only", "config_source", "is_sensitive")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("value", "string", (0, 32767), (0, 32767), None, "", False),
        ("read_only", "bool", (0, 32767), None, None, False, False),
        ("config_source", "int8", (0, 32767), None, None, -1, True),
        ("is_sensitive", "bool", (0, 32767), None, None, False, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        value: str | None = "",
        read_only: bool = False,
        config_source: int = -1,
        is_sensitive: bool = False,
    ) -> None:
        self.name = name
        self.value = value
        self.read_only = read_only
        self.config_source = config_source
        self.is_sensitive = is_sensitive


class CreatableTopicResult(Structure):
    """An element of `CreateTopicsResponse.topics`."""

    __slots__ = (
        "name",
        "topic_id",
        "error_code",
        "error_message",
        "topic_config_error_code",
        "num_partitions",
        "replication_factor",
        "configs",
    )

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("topic_id", "uuid", (7, 32767), None, None, 0, True),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, "", True),
        ("topic_config_error_code", "int16", (5, 32767), None, 0, 0, True),
        ("num_partitions", "int32", (5, 32767), None, None, -1, True),
        ("replication_factor", "int16", (5, 32767), None, None, -1, True),
        ("configs", "[CreatableTopicConfigs]", (5, 32767), (0, 32767), None, (), True),
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: Uuid = Uuid.ZERO,
        error_code: int = 0,
        error_message: str | None = "",
        topic_config_error_code: int = 0,
        num_partitions: int = -1,
        replication_factor: int = -1,
        configs: list[CreatableTopicConfigs] | None = EMPTY,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message
        self.topic_config_error_code = topic_config_error_code
        self.num_partitions = num_partitions
        self.replication_factor = replication_factor
        self.configs = [] if configs is EMPTY else configs


class CreateTopicsResponse(Message):
    """Response, versions 2 to 7, flexible since 5."""

    __slots__ = ("throttle_time_ms", "topics")

    API_KEY = 19
    VERSIONS = (2, 7)
    FLEXIBLE_SINCE = 5
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, True),
        ("topics", "[CreatableTopicResult]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        topics: list[CreatableTopicResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.topics = [] if topics is EMPTY else topics
