# Written by tools/generate_messages.py from definitions/94_unregister_controller.txt: change the definition, not this file.
"""UnregisterController, API key 94.

Removes the registration of a controller (KIP-1312).
"""

from __future__ import annotations

from ottla.wire.message import Message, Request

__all__ = [
    "UnregisterControllerRequest",
    "UnregisterControllerResponse",
]


class UnregisterControllerRequest(Request["UnregisterControllerResponse"]):
    """Request, version 0, flexible."""

    __slots__ = ("controller_id",)

    API_KEY = 94
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (("controller_id", "int32", (0, 32767), None, None, 0, False),)

    def __init__(
        self,
        *,
        controller_id: int = 0,
    ) -> None:
        self.controller_id = controller_id


class UnregisterControllerResponse(Message):
    """Response, version 0, flexible."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message")

    API_KEY = 94
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, "", False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
