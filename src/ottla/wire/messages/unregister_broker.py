# Written by tools/generate_messages.py from definitions/64_unregister_broker.txt: change the definition, not this file.
"""UnregisterBroker, API key 64.

Removes the registration of a broker.
"""

from __future__ import annotations

from ottla.wire.message import Message, Request

__all__ = [
    "UnregisterBrokerRequest",
    "UnregisterBrokerResponse",
]


class UnregisterBrokerRequest(Request["UnregisterBrokerResponse"]):
    """Request, version 0, flexible."""

    __slots__ = ("broker_id",)

    API_KEY = 64
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (("broker_id", "int32", (0, 32767), None, None, 0, False),)

    def __init__(
        self,
        *,
        broker_id: int = 0,
    ) -> None:
        self.broker_id = broker_id


class UnregisterBrokerResponse(Message):
    """Response, version 0, flexible."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message")

    API_KEY = 64
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
