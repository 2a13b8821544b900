# Written by tools/generate_messages.py from definitions/20_delete_topics.txt: change the definition, not this file.
"""DeleteTopics, API key 20.

Deletes topics by name, from 6 on also by id. 5 may be throttled (KIP-599).
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "DeletableTopicResult",
    "DeleteTopicState",
    "DeleteTopicsRequest",
    "DeleteTopicsResponse",
]


class DeleteTopicState(Structure):
    """An element of `DeleteTopicsRequest.topics`."""

    __slots__ = ("name", "topic_id")

    FIELDS = (
        ("name", "string", (0, 32767), (0, 32767), None, None, False),
        ("topic_id", "uuid", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        name: str | None = None,
        topic_id: Uuid = Uuid.ZERO,
    ) -> None:
        self.name = name
        self.topic_id = topic_id


class DeleteTopicsRequest(Request["DeleteTopicsResponse"]):
    """Request, versions 1 to 6, flexible since 4."""

    __slots__ = ("topics", "topic_names", "timeout_ms")

    API_KEY = 20
    VERSIONS = (1, 6)
    FLEXIBLE_SINCE = 4
    FIELDS = (
        ("topics", "[DeleteTopicState]", (6, 32767), None, None, (), False),
        ("topic_names", "[string]", (1, 5), None, None, (), True),
        ("timeout_ms", "int32", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        topics: list[DeleteTopicState] = EMPTY,
        topic_names: list[str] = EMPTY,
        timeout_ms: int = 0,
    ) -> None:
        self.topics = [] if topics is EMPTY else topics
        self.topic_names = [] if topic_names is EMPTY else topic_names
        self.timeout_ms = timeout_ms


class DeletableTopicResult(Structure):
    """An element of `DeleteTopicsResponse.responses`."""

    __slots__ = ("name", "topic_id", "error_code", "error_message")

    FIELDS = (
        ("name", "string", (0, 32767), (6, 32767), None, "", False),
        ("topic_id", "uuid", (6, 32767), None, None, 0, True),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (5, 32767), (0, 32767), None, None, True),
    )

    def __init__(
        self,
        *,
        name: str | None = "",
        topic_id: Uuid = Uuid.ZERO,
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.error_code = error_code
        self.error_message = error_message


class DeleteTopicsResponse(Message):
    """Response, versions 1 to 6, flexible since 4."""

    __slots__ = ("throttle_time_ms", "responses")

    API_KEY = 20
    VERSIONS = (1, 6)
    FLEXIBLE_SINCE = 4
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, True),
        ("responses", "[DeletableTopicResult]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        responses: list[DeletableTopicResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.responses = [] if responses is EMPTY else responses
