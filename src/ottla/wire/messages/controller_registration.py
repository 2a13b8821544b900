# Written by tools/generate_messages.py from definitions/70_controller_registration.txt: change the definition, not this file.
"""ControllerRegistration, API key 70.

Registers a starting controller with the active controller.
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "ControllerRegistrationRequest",
    "ControllerRegistrationResponse",
    "Feature",
    "Listener",
]


class Listener(Structure):
    """An element of `ControllerRegistrationRequest.listeners`."""

    __slots__ = ("name", "host", "port", "security_protocol")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("host", "string", (0, 32767), None, None, "", False),
        ("port", "uint16", (0, 32767), None, None, 0, False),
        ("security_protocol", "int16", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        host: str = "",
        port: int = 0,
        security_protocol: int = 0,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.security_protocol = security_protocol


class Feature(Structure):
    """An element of `ControllerRegistrationRequest.features`."""

    __slots__ = ("name", "min_supported_version", "max_supported_version")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("min_supported_version", "int16", (0, 32767), None, None, 0, False),
        ("max_supported_version", "int16", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        min_supported_version: int = 0,
        max_supported_version: int = 0,
    ) -> None:
        self.name = name
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version


class ControllerRegistrationRequest(Request["ControllerRegistrationResponse"]):
    """Request, version 0, flexible."""

    __slots__ = ("controller_id", "incarnation_id", "zk_migration_ready", "listeners", "features")

    API_KEY = 70
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("controller_id", "int32", (0, 32767), None, None, 0, False),
        ("incarnation_id", "uuid", (0, 32767), None, None, 0, False),
        ("zk_migration_ready", "bool", (0, 32767), None, None, False, False),
        ("listeners", "[Listener]", (0, 32767), None, None, (), False),
        ("features", "[Feature]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        controller_id: int = 0,
        incarnation_id: Uuid = Uuid.ZERO,
        zk_migration_ready: bool = False,
        listeners: list[Listener] = EMPTY,
        features: list[Feature] = EMPTY,
    ) -> None:
        self.controller_id = controller_id
        self.incarnation_id = incarnation_id
        self.zk_migration_ready = zk_migration_ready
        self.listeners = [] if listeners is EMPTY else listeners
        self.features = [] if features is EMPTY else features


class ControllerRegistrationResponse(Message):
    """Response, version 0, flexible."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message")

    API_KEY = 70
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
