# Written by tools/generate_messages.py from definitions/88_streams_group_heartbeat.txt: change the definition, not this file.
"""StreamsGroupHeartbeat, API key 88.

Membership of a Kafka Streams instance (KIP-1071). 1 may request the topology's description (KIP-1331) and
return the status MISSING_CLIENT_TAGS (6).
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "CopartitionGroup",
    "Endpoint",
    "EndpointToPartitions",
    "KeyValue",
    "Status",
    "StreamsGroupHeartbeatRequest",
    "StreamsGroupHeartbeatResponse",
    "Subtopology",
    "TaskIds",
    "TaskOffset",
    "TopicInfo",
    "TopicPartition",
    "Topology",
]


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


class TaskIds(Structure):
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


class TopicInfo(Structure):
    """Shared by several fields."""

    __slots__ = ("name", "partitions", "replication_factor", "topic_configs")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("partitions", "int32", (0, 32767), None, None, 0, False),
        ("replication_factor", "int16", (0, 32767), None, None, 0, False),
        ("topic_configs", "[KeyValue]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        partitions: int = 0,
        replication_factor: int = 0,
        topic_configs: list[KeyValue] = EMPTY,
    ) -> None:
        self.name = name
        self.partitions = partitions
        self.replication_factor = replication_factor
        self.topic_configs = [] if topic_configs is EMPTY else topic_configs


class TaskOffset(Structure):
    """Shared by several fields."""

    __slots__ = ("subtopology_id", "partition", "offset")

    FIELDS = (
        ("subtopology_id", "string", (0, 32767), None, None, "", False),
        ("partition", "int32", (0, 32767), None, None, 0, False),
        ("offset", "int64", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        partition: int = 0,
        offset: int = 0,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.partition = partition
        self.offset = offset


class Status(Structure):
    """Shared by several fields."""

    __slots__ = ("status_code", "status_detail")

    FIELDS = (
        ("status_code", "int8", (0, 32767), None, None, 0, False),
        ("status_detail", "string", (0, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        status_code: int = 0,
        status_detail: str = "",
    ) -> None:
        self.status_code = status_code
        self.status_detail = status_detail


class TopicPartition(Structure):
    """Shared by several fields."""

    __slots__ = ("topic", "partitions")

    FIELDS = (
        ("topic", "string", (0, 32767), None, None, "", False),
        ("partitions", "[int32]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        topic: str = "",
        partitions: list[int] = EMPTY,
    ) -> None:
        self.topic = topic
        self.partitions = [] if partitions is EMPTY else partitions


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
    """An element of `Topology.subtopologies`."""

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
        ("state_changelog_topics", "[TopicInfo]", (0, 32767), None, None, (), False),
        ("repartition_sink_topics", "[string]", (0, 32767), None, None, (), False),
        ("repartition_source_topics", "[TopicInfo]", (0, 32767), None, None, (), False),
        ("copartition_groups", "[CopartitionGroup]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        source_topics: list[str] = EMPTY,
        source_topic_regex: list[str] = EMPTY,
        state_changelog_topics: list[TopicInfo] = EMPTY,
        repartition_sink_topics: list[str] = EMPTY,
        repartition_source_topics: list[TopicInfo] = EMPTY,
        copartition_groups: list[CopartitionGroup] = EMPTY,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.source_topics = [] if source_topics is EMPTY else source_topics
        self.source_topic_regex = [] if source_topic_regex is EMPTY else source_topic_regex
        self.state_changelog_topics = [] if state_changelog_topics is EMPTY else state_changelog_topics
        self.repartition_sink_topics = [] if repartition_sink_topics is EMPTY else repartition_sink_topics
        self.repartition_source_topics = [] if repartition_source_topics is EMPTY else repartition_source_topics
        self.copartition_groups = [] if copartition_groups is EMPTY else copartition_groups


class Topology(Structure):
    """The value of `StreamsGroupHeartbeatRequest.topology`."""

    __slots__ = ("epoch", "subtopologies")

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


class StreamsGroupHeartbeatRequest(Request["StreamsGroupHeartbeatResponse"]):
    """Request, versions 0 to 1, flexible."""

    __slots__ = (
        "group_id",
        "member_id",
        "member_epoch",
        "endpoint_information_epoch",
        "instance_id",
        "rack_id",
        "rebalance_timeout_ms",
        "topology",
        "active_tasks",
        "standby_tasks",
        "warmup_tasks",
        "process_id",
        "user_endpoint",
        "client_tags",
        "task_offsets",
        "task_end_offsets",
        "shutdown_application",
    )

    API_KEY = 88
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("member_id", "string", (0, 32767), None, None, "", False),
        ("member_epoch", "int32", (0, 32767), None, None, 0, False),
        ("endpoint_information_epoch", "int32", (0, 32767), None, None, 0, False),
        ("instance_id", "string", (0, 32767), (0, 32767), None, None, False),
        ("rack_id", "string", (0, 32767), (0, 32767), None, None, False),
        ("rebalance_timeout_ms", "int32", (0, 32767), None, None, -1, False),
        ("topology", "Topology", (0, 32767), (0, 32767), None, None, False),
        ("active_tasks", "[TaskIds]", (0, 32767), (0, 32767), None, None, False),
        ("standby_tasks", "[TaskIds]", (0, 32767), (0, 32767), None, None, False),
        ("warmup_tasks", "[TaskIds]", (0, 32767), (0, 32767), None, None, False),
        ("process_id", "string", (0, 32767), (0, 32767), None, None, False),
        ("user_endpoint", "Endpoint", (0, 32767), (0, 32767), None, None, False),
        ("client_tags", "[KeyValue]", (0, 32767), (0, 32767), None, None, False),
        ("task_offsets", "[TaskOffset]", (0, 32767), (0, 32767), None, None, False),
        ("task_end_offsets", "[TaskOffset]", (0, 32767), (0, 32767), None, None, False),
        ("shutdown_application", "bool", (0, 32767), None, None, False, False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        member_epoch: int = 0,
        endpoint_information_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        rebalance_timeout_ms: int = -1,
        topology: Topology | None = None,
        active_tasks: list[TaskIds] | None = None,
        standby_tasks: list[TaskIds] | None = None,
        warmup_tasks: list[TaskIds] | None = None,
        process_id: str | None = None,
        user_endpoint: Endpoint | None = None,
        client_tags: list[KeyValue] | None = None,
        task_offsets: list[TaskOffset] | None = None,
        task_end_offsets: list[TaskOffset] | None = None,
        shutdown_application: bool = False,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.endpoint_information_epoch = endpoint_information_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.topology = topology
        self.active_tasks = active_tasks
        self.standby_tasks = standby_tasks
        self.warmup_tasks = warmup_tasks
        self.process_id = process_id
        self.user_endpoint = user_endpoint
        self.client_tags = client_tags
        self.task_offsets = task_offsets
        self.task_end_offsets = task_end_offsets
        self.shutdown_application = shutdown_application


class EndpointToPartitions(Structure):
    """An element of `StreamsGroupHeartbeatResponse.partitions_by_user_endpoint`."""

    __slots__ = ("user_endpoint", "active_partitions", "standby_partitions")

    FIELDS = (
        ("user_endpoint", "Endpoint", (0, 32767), None, None, (), False),
        ("active_partitions", "[TopicPartition]", (0, 32767), None, None, (), False),
        ("standby_partitions", "[TopicPartition]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        user_endpoint: Endpoint = EMPTY,
        active_partitions: list[TopicPartition] = EMPTY,
        standby_partitions: list[TopicPartition] = EMPTY,
    ) -> None:
        self.user_endpoint = Endpoint() if user_endpoint is EMPTY else user_endpoint
        self.active_partitions = [] if active_partitions is EMPTY else active_partitions
        self.standby_partitions = [] if standby_partitions is EMPTY else standby_partitions


class StreamsGroupHeartbeatResponse(Message):
    """Response, versions 0 to 1, flexible."""

    __slots__ = (
        "throttle_time_ms",
        "error_code",
        "error_message",
        "member_id",
        "member_epoch",
        "heartbeat_interval_ms",
        "acceptable_recovery_lag_legacy",
        "task_offset_interval_ms",
        "acceptable_recovery_lag",
        "status",
        "active_tasks",
        "standby_tasks",
        "warmup_tasks",
        "topology_description_required",
        "endpoint_information_epoch",
        "partitions_by_user_endpoint",
    )

    API_KEY = 88
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, False),
        ("member_id", "string", (0, 32767), None, None, "", False),
        ("member_epoch", "int32", (0, 32767), None, None, 0, False),
        ("heartbeat_interval_ms", "int32", (0, 32767), None, None, 0, False),
        ("acceptable_recovery_lag_legacy", "int32", (0, 0), None, None, 0, False),
        ("task_offset_interval_ms", "int32", (0, 32767), None, None, 0, False),
        ("acceptable_recovery_lag", "int64", (1, 32767), None, None, -1, True),
        ("status", "[Status]", (0, 32767), (0, 32767), None, (), False),
        ("active_tasks", "[TaskIds]", (0, 32767), (0, 32767), None, None, False),
        ("standby_tasks", "[TaskIds]", (0, 32767), (0, 32767), None, None, False),
        ("warmup_tasks", "[TaskIds]", (0, 32767), (0, 32767), None, None, False),
        ("topology_description_required", "bool", (1, 32767), None, None, False, False),
        ("endpoint_information_epoch", "int32", (0, 32767), None, None, 0, False),
        ("partitions_by_user_endpoint", "[EndpointToPartitions]", (0, 32767), (0, 32767), None, None, False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        member_id: str = "",
        member_epoch: int = 0,
        heartbeat_interval_ms: int = 0,
        acceptable_recovery_lag_legacy: int = 0,
        task_offset_interval_ms: int = 0,
        acceptable_recovery_lag: int = -1,
        status: list[Status] | None = EMPTY,
        active_tasks: list[TaskIds] | None = None,
        standby_tasks: list[TaskIds] | None = None,
        warmup_tasks: list[TaskIds] | None = None,
        topology_description_required: bool = False,
        endpoint_information_epoch: int = 0,
        partitions_by_user_endpoint: list[EndpointToPartitions] | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.heartbeat_interval_ms = heartbeat_interval_ms
        self.acceptable_recovery_lag_legacy = acceptable_recovery_lag_legacy
        self.task_offset_interval_ms = task_offset_interval_ms
        self.acceptable_recovery_lag = acceptable_recovery_lag
        self.status = [] if status is EMPTY else status
        self.active_tasks = active_tasks
        self.standby_tasks = standby_tasks
        self.warmup_tasks = warmup_tasks
        self.topology_description_required = topology_description_required
        self.endpoint_information_epoch = endpoint_information_epoch
        self.partitions_by_user_endpoint = partitions_by_user_endpoint
