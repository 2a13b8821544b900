# Written by tools/generate_messages.py from definitions/10_find_coordinator.txt: change the definition, not this file.
"""FindCoordinator, API key 10.

The broker that coordinates a group, a transactional id or a share group's partition.
4 asks for several keys at once (KIP-699); 6 knows share groups, whose key is `group:topic id:partition` (KIP-932).
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "Coordinator",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
]


class FindCoordinatorRequest(Request["FindCoordinatorResponse"]):
    """Request, versions 0 to 6, flexible since 3."""

    __slots__ = ("key", "key_type", "coordinator_keys")

    API_KEY = 10
    VERSIONS = (0, 6)
    FLEXIBLE_SINCE = 3
    FIELDS = (
        ("key", "string", (0, 3), None, None, "", False),
        ("key_type", "int8", (1, 32767), None, None, 0, False),
        ("coordinator_keys", "[string]", (4, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        key: str = "",
        key_type: int = 0,
        coordinator_keys: list[str] = EMPTY,
    ) -> None:
        self.key = key
        self.key_type = key_type
        self.coordinator_keys = [] if coordinator_keys is EMPTY else coordinator_keys


class Coordinator(Structure):
    """An element of `FindCoordinatorResponse.coordinators`."""

    __slots__ = ("key", "node_id", "host", "port", "error_code", "error_message")

    FIELDS = (
        ("key", "string", (0, 32767), None, None, "", False),
        ("node_id", "int32", (0, 32767), None, None, 0, False),
        ("host", "string", (0, 32767), None, None, "", False),
        ("port", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, "", True),
    )

    def __init__(
        self,
        *,
        key: str = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.key = key
        self.node_id = node_id
        self.host = host
        self.port = port
        self.error_code = error_code
        self.error_message = error_message


class FindCoordinatorResponse(Message):
    """Response, versions 0 to 6, flexible since 3."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "node_id", "host", "port", "coordinators")

    API_KEY = 10
    VERSIONS = (0, 6)
    FLEXIBLE_SINCE = 3
    FIELDS = (
        ("throttle_time_ms", "int32", (1, 32767), None, None, 0, True),
        ("error_code", "int16", (0, 3), None, None, 0, False),
        ("error_message", "string", (1, 3), (0, 32767), None, "", True),
        ("node_id", "int32", (0, 3), None, None, 0, False),
        ("host", "string", (0, 3), None, None, "", False),
        ("port", "int32", (0, 3), None, None, 0, False),
        ("coordinators", "[Coordinator]", (4, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        node_id: int = 0,
        host: str = "",
        port: int = 0,
        coordinators: list[Coordinator] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.node_id = node_id
        self.host = host
        self.port = port
        self.coordinators = [] if coordinators is EMPTY else coordinators
