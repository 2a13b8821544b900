# Written by tools/generate_messages.py from definitions/92_delete_share_group_offsets.txt: change the definition, not this file.
"""DeleteShareGroupOffsets, API key 92.

Deletes the start offsets of a share group.
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "DeleteShareGroupOffsetsRequest",
    "DeleteShareGroupOffsetsRequestTopic",
    "DeleteShareGroupOffsetsResponse",
    "DeleteShareGroupOffsetsResponseTopic",
]


class DeleteShareGroupOffsetsRequestTopic(Structure):
    """An element of `DeleteShareGroupOffsetsRequest.topics`."""

    __slots__ = ("topic_name",)

    FIELDS = (("topic_name", "string", (0, 32767), None, None, "", False),)

    def __init__(
        self,
        *,
        topic_name: str = "",
    ) -> None:
        self.topic_name = topic_name


class DeleteShareGroupOffsetsRequest(Request["DeleteShareGroupOffsetsResponse"]):
    """Request, version 0, flexible."""

    __slots__ = ("group_id", "topics")

    API_KEY = 92
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("topics", "[DeleteShareGroupOffsetsRequestTopic]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        topics: list[DeleteShareGroupOffsetsRequestTopic] = EMPTY,
    ) -> None:
        self.group_id = group_id
        self.topics = [] if topics is EMPTY else topics


class DeleteShareGroupOffsetsResponseTopic(Structure):
    """An element of `DeleteShareGroupOffsetsResponse.responses`."""

    __slots__ = ("topic_name", "topic_id", "error_code", "error_message")

    FIELDS = (
        ("topic_name", "string", (0, 32767), None, None, "", False),
        ("topic_id", "uuid", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, False),
    )

    def __init__(
        self,
        *,
        topic_name: str = "",
        topic_id: Uuid = Uuid.ZERO,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.topic_name = topic_name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message


class DeleteShareGroupOffsetsResponse(Message):
    """Response, version 0, flexible."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "responses")

    API_KEY = 92
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, None, False),
        ("responses", "[DeleteShareGroupOffsetsResponseTopic]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = None,
        responses: list[DeleteShareGroupOffsetsResponseTopic] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.responses = [] if responses is EMPTY else responses
