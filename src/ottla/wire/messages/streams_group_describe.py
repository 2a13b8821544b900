# Written by tools/generate_messages.py from definitions/89_streams_group_describe.txt: change the definition, not this file.
"""StreamsGroupDescribe, API key 89.

State, topology and members of streams groups. 1 adds the name of the assignor (KIP-1357) and the topology's
description (KIP-1331) with its status: 0 not requested, 1 not stored, 2 failed, 3 available.
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "Assignment",
    "DescribedGroup",
    "Endpoint",
    "KeyValue",
    "Member",
    "StreamsGroupDescribeRequest",
    "StreamsGroupDescribeResponse",
    "Subtopology",
    "TaskIds",
    "TaskOffset",
    "TopicInfo",
    "Topology",
    "TopologyDescription",
    "TopologyDescriptionGlobalStore",
    "TopologyDescriptionNode",
    "TopologyDescriptionSubtopology",
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


class Assignment(Structure):
    """Shared by several fields."""

    __slots__ = ("active_tasks", "standby_tasks", "warmup_tasks")

    FIELDS = (
        ("active_tasks", "[TaskIds]", (0, 32767), None, None, (), False),
        ("standby_tasks", "[TaskIds]", (0, 32767), None, None, (), False),
        ("warmup_tasks", "[TaskIds]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        active_tasks: list[TaskIds] = EMPTY,
        standby_tasks: list[TaskIds] = EMPTY,
        warmup_tasks: list[TaskIds] = EMPTY,
    ) -> None:
        self.active_tasks = [] if active_tasks is EMPTY else active_tasks
        self.standby_tasks = [] if standby_tasks is EMPTY else standby_tasks
        self.warmup_tasks = [] if warmup_tasks is EMPTY else warmup_tasks


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


class TopologyDescriptionSubtopology(Structure):
    """Shared by several fields."""

    __slots__ = ("subtopology_id", "nodes")

    FIELDS = (
        ("subtopology_id", "string", (0, 32767), None, None, "", False),
        ("nodes", "[TopologyDescriptionNode]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        nodes: list[TopologyDescriptionNode] = EMPTY,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.nodes = [] if nodes is EMPTY else nodes


class TopologyDescriptionGlobalStore(Structure):
    """Shared by several fields."""

    __slots__ = ("source", "processor")

    FIELDS = (
        ("source", "TopologyDescriptionNode", (0, 32767), None, None, (), False),
        ("processor", "TopologyDescriptionNode", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        source: TopologyDescriptionNode = EMPTY,
        processor: TopologyDescriptionNode = EMPTY,
    ) -> None:
        self.source = TopologyDescriptionNode() if source is EMPTY else source
        self.processor = TopologyDescriptionNode() if processor is EMPTY else processor


class TopologyDescriptionNode(Structure):
    """Shared by several fields.
    The type is 1 for a source, 2 for a processor, 3 for a sink.
    """

    __slots__ = ("name", "node_type", "source_topics", "sink_topic", "stores", "successors")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("node_type", "int8", (0, 32767), None, None, 0, False),
        ("source_topics", "[string]", (0, 32767), None, None, (), False),
        ("sink_topic", "string", (0, 32767), (0, 32767), None, None, False),
        ("stores", "[string]", (0, 32767), None, None, (), False),
        ("successors", "[string]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        node_type: int = 0,
        source_topics: list[str] = EMPTY,
        sink_topic: str | None = None,
        stores: list[str] = EMPTY,
        successors: list[str] = EMPTY,
    ) -> None:
        self.name = name
        self.node_type = node_type
        self.source_topics = [] if source_topics is EMPTY else source_topics
        self.sink_topic = sink_topic
        self.stores = [] if stores is EMPTY else stores
        self.successors = [] if successors is EMPTY else successors


class StreamsGroupDescribeRequest(Request["StreamsGroupDescribeResponse"]):
    """Request, versions 0 to 1, flexible."""

    __slots__ = ("group_ids", "include_authorized_operations", "include_topology_description")

    API_KEY = 89
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("group_ids", "[string]", (0, 32767), None, None, (), False),
        ("include_authorized_operations", "bool", (0, 32767), None, None, False, False),
        ("include_topology_description", "bool", (1, 32767), None, None, False, False),
    )

    def __init__(
        self,
        *,
        group_ids: list[str] = EMPTY,
        include_authorized_operations: bool = False,
        include_topology_description: bool = False,
    ) -> None:
        self.group_ids = [] if group_ids is EMPTY else group_ids
        self.include_authorized_operations = include_authorized_operations
        self.include_topology_description = include_topology_description


class Subtopology(Structure):
    """An element of `Topology.subtopologies`."""

    __slots__ = (
        "subtopology_id",
        "source_topics",
        "repartition_sink_topics",
        "state_changelog_topics",
        "repartition_source_topics",
    )

    FIELDS = (
        ("subtopology_id", "string", (0, 32767), None, None, "", False),
        ("source_topics", "[string]", (0, 32767), None, None, (), False),
        ("repartition_sink_topics", "[string]", (0, 32767), None, None, (), False),
        ("state_changelog_topics", "[TopicInfo]", (0, 32767), None, None, (), False),
        ("repartition_source_topics", "[TopicInfo]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        subtopology_id: str = "",
        source_topics: list[str] = EMPTY,
        repartition_sink_topics: list[str] = EMPTY,
        state_changelog_topics: list[TopicInfo] = EMPTY,
        repartition_source_topics: list[TopicInfo] = EMPTY,
    ) -> None:
        self.subtopology_id = subtopology_id
        self.source_topics = [] if source_topics is EMPTY else source_topics
        self.repartition_sink_topics = [] if repartition_sink_topics is EMPTY else repartition_sink_topics
        self.state_changelog_topics = [] if state_changelog_topics is EMPTY else state_changelog_topics
        self.repartition_source_topics = [] if repartition_source_topics is EMPTY else repartition_source_topics


class Topology(Structure):
    """The value of `DescribedGroup.topology`."""

    __slots__ = ("epoch", "subtopologies")

    FIELDS = (
        ("epoch", "int32", (0, 32767), None, None, 0, False),
        ("subtopologies", "[Subtopology]", (0, 32767), (0, 32767), None, None, False),
    )

    def __init__(
        self,
        *,
        epoch: int = 0,
        subtopologies: list[Subtopology] | None = None,
    ) -> None:
        self.epoch = epoch
        self.subtopologies = subtopologies


class Member(Structure):
    """An element of `DescribedGroup.members`."""

    __slots__ = (
        "member_id",
        "member_epoch",
        "instance_id",
        "rack_id",
        "client_id",
        "client_host",
        "topology_epoch",
        "process_id",
        "user_endpoint",
        "client_tags",
        "task_offsets",
        "task_end_offsets",
        "assignment",
        "target_assignment",
        "is_classic",
    )

    FIELDS = (
        ("member_id", "string", (0, 32767), None, None, "", False),
        ("member_epoch", "int32", (0, 32767), None, None, 0, False),
        ("instance_id", "string", (0, 32767), (0, 32767), None, None, False),
        ("rack_id", "string", (0, 32767), (0, 32767), None, None, False),
        ("client_id", "string", (0, 32767), None, None, "", False),
        ("client_host", "string", (0, 32767), None, None, "", False),
        ("topology_epoch", "int32", (0, 32767), None, None, 0, False),
        ("process_id", "string", (0, 32767), None, None, "", False),
        ("user_endpoint", "Endpoint", (0, 32767), (0, 32767), None, None, False),
        ("client_tags", "[KeyValue]", (0, 32767), None, None, (), False),
        ("task_offsets", "[TaskOffset]", (0, 32767), None, None, (), False),
        ("task_end_offsets", "[TaskOffset]", (0, 32767), None, None, (), False),
        ("assignment", "Assignment", (0, 32767), None, None, (), False),
        ("target_assignment", "Assignment", (0, 32767), None, None, (), False),
        ("is_classic", "bool", (0, 32767), None, None, False, False),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        member_epoch: int = 0,
        instance_id: str | None = None,
        rack_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        topology_epoch: int = 0,
        process_id: str = "",
        user_endpoint: Endpoint | None = None,
        client_tags: list[KeyValue] = EMPTY,
        task_offsets: list[TaskOffset] = EMPTY,
        task_end_offsets: list[TaskOffset] = EMPTY,
        assignment: Assignment = EMPTY,
        target_assignment: Assignment = EMPTY,
        is_classic: bool = False,
    ) -> None:
        self.member_id = member_id
        self.member_epoch = member_epoch
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.topology_epoch = topology_epoch
        self.process_id = process_id
        self.user_endpoint = user_endpoint
        self.client_tags = [] if client_tags is EMPTY else client_tags
        self.task_offsets = [] if task_offsets is EMPTY else task_offsets
        self.task_end_offsets = [] if task_end_offsets is EMPTY else task_end_offsets
        self.assignment = Assignment() if assignment is EMPTY else assignment
        self.target_assignment = Assignment() if target_assignment is EMPTY else target_assignment
        self.is_classic = is_classic


class TopologyDescription(Structure):
    """The value of `DescribedGroup.topology_description`."""

    __slots__ = ("subtopologies", "global_stores")

    FIELDS = (
        ("subtopologies", "[TopologyDescriptionSubtopology]", (0, 32767), None, None, (), False),
        ("global_stores", "[TopologyDescriptionGlobalStore]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        subtopologies: list[TopologyDescriptionSubtopology] = EMPTY,
        global_stores: list[TopologyDescriptionGlobalStore] = EMPTY,
    ) -> None:
        self.subtopologies = [] if subtopologies is EMPTY else subtopologies
        self.global_stores = [] if global_stores is EMPTY else global_stores


class DescribedGroup(Structure):
    """An element of `StreamsGroupDescribeResponse.groups`."""

    __slots__ = (
        "error_code",
        "error_message",
        "group_id",
        "group_state",
        "group_epoch",
        "assignment_epoch",
        "topology",
        "members",
        "authorized_operations",
        "topology_description",
        "topology_description_status",
        "assignor_name",
    )

    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, False),
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("group_state", "string", (0, 32767), None, None, "", False),
        ("group_epoch", "int32", (0, 32767), None, None, 0, False),
        ("assignment_epoch", "int32", (0, 32767), None, None, 0, False),
        ("topology", "Topology", (0, 32767), (0, 32767), None, None, False),
        ("members", "[Member]", (0, 32767), None, None, (), False),
        ("authorized_operations", "int32", (0, 32767), None, None, -2147483648, False),
        ("topology_description", "TopologyDescription", (1, 32767), (0, 32767), None, None, False),
        ("topology_description_status", "int8", (1, 32767), None, None, 0, False),
        ("assignor_name", "string", (1, 32767), (0, 32767), None, None, True),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        error_message: str | None = None,
        group_id: str = "",
        group_state: str = "",
        group_epoch: int = 0,
        assignment_epoch: int = 0,
        topology: Topology | None = None,
        members: list[Member] = EMPTY,
        authorized_operations: int = -2147483648,
        topology_description: TopologyDescription | None = None,
        topology_description_status: int = 0,
        assignor_name: str | None = None,
    ) -> None:
        self.error_code = error_code
        self.error_message = error_message
        self.group_id = group_id
        self.group_state = group_state
        self.group_epoch = group_epoch
        self.assignment_epoch = assignment_epoch
        self.topology = topology
        self.members = [] if members is EMPTY else members
        self.authorized_operations = authorized_operations
        self.topology_description = topology_description
        self.topology_description_status = topology_description_status
        self.assignor_name = assignor_name


class StreamsGroupDescribeResponse(Message):
    """Response, versions 0 to 1, flexible."""

    __slots__ = ("throttle_time_ms", "groups")

    API_KEY = 89
    VERSIONS = (0, 1)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("groups", "[DescribedGroup]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        groups: list[DescribedGroup] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.groups = [] if groups is EMPTY else groups
