# Written by tools/generate_messages.py from definitions/93_streams_group_topology_description_update.txt: change the definition, not this file.
"""StreamsGroupTopologyDescriptionUpdate, API key 93.

A member of a streams group sends the topology's description, which a plug-in of the broker stores (KIP-1331).
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "StreamsGroupTopologyDescriptionUpdateRequest",
    "StreamsGroupTopologyDescriptionUpdateResponse",
    "TopologyDescription",
    "TopologyDescriptionGlobalStore",
    "TopologyDescriptionNode",
    "TopologyDescriptionSubtopology",
]


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


class TopologyDescription(Structure):
    """The value of `StreamsGroupTopologyDescriptionUpdateRequest.topology_description`."""

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


class StreamsGroupTopologyDescriptionUpdateRequest(Request["StreamsGroupTopologyDescriptionUpdateResponse"]):
    """Request, version 0, flexible."""

    __slots__ = ("group_id", "member_id", "topology_epoch", "topology_description")

    API_KEY = 93
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("member_id", "string", (0, 32767), None, None, "", False),
        ("topology_epoch", "int32", (0, 32767), None, None, 0, False),
        ("topology_description", "TopologyDescription", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        member_id: str = "",
        topology_epoch: int = 0,
        topology_description: TopologyDescription = EMPTY,
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.topology_epoch = topology_epoch
        self.topology_description = TopologyDescription() if topology_description is EMPTY else topology_description


class StreamsGroupTopologyDescriptionUpdateResponse(Message):
    """Response, version 0, flexible."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message")

    API_KEY = 93
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
