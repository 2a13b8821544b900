# Written by tools/generate_messages.py from definitions/63_broker_heartbeat.txt: change the definition, not this file.
"""BrokerHeartbeat, API key 63.

A broker's heartbeat, which may request unfencing or a controlled shutdown.
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request

__all__ = [
    "BrokerHeartbeatRequest",
    "BrokerHeartbeatResponse",
]


class BrokerHeartbeatRequest(Request["BrokerHeartbeatResponse"]):
    """Request, versions 0 to 2, flexible."""

    __slots__ = (
        "broker_id",
        "broker_epoch",
        "current_metadata_offset",
        "want_fence",
        "want_shut_down",
        "offline_log_dirs",
        "cordoned_log_dirs",
    )

    API_KEY = 63
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("broker_id", "int32", (0, 32767), None, None, 0, False),
        ("broker_epoch", "int64", (0, 32767), None, None, -1, False),
        ("current_metadata_offset", "int64", (0, 32767), None, None, 0, False),
        ("want_fence", "bool", (0, 32767), None, None, False, False),
        ("want_shut_down", "bool", (0, 32767), None, None, False, False),
        ("offline_log_dirs", "[uuid]", (1, 32767), None, 0, (), False),
        ("cordoned_log_dirs", "[uuid]", (2, 32767), (0, 32767), 1, None, False),
    )

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
        current_metadata_offset: int = 0,
        want_fence: bool = False,
        want_shut_down: bool = False,
        offline_log_dirs: list[Uuid] = EMPTY,
        cordoned_log_dirs: list[Uuid] | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.current_metadata_offset = current_metadata_offset
        self.want_fence = want_fence
        self.want_shut_down = want_shut_down
        self.offline_log_dirs = [] if offline_log_dirs is EMPTY else offline_log_dirs
        self.cordoned_log_dirs = cordoned_log_dirs


class BrokerHeartbeatResponse(Message):
    """Response, versions 0 to 2, flexible."""

    __slots__ = ("throttle_time_ms", "error_code", "is_caught_up", "is_fenced", "should_shut_down")

    API_KEY = 63
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("is_caught_up", "bool", (0, 32767), None, None, False, False),
        ("is_fenced", "bool", (0, 32767), None, None, True, False),
        ("should_shut_down", "bool", (0, 32767), None, None, False, False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        is_caught_up: bool = False,
        is_fenced: bool = True,
        should_shut_down: bool = False,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.is_caught_up = is_caught_up
        self.is_fenced = is_fenced
        self.should_shut_down = should_shut_down
