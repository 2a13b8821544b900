# Written by tools/generate_messages.py from definitions/62_broker_registration.txt: change the definition, not this file.
"""BrokerRegistration, API key 62.

Registers a starting broker with the controller.
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "BrokerRegistrationRequest",
    "BrokerRegistrationResponse",
    "Feature",
    "Listener",
]


class Listener(Structure):
    """An element of `BrokerRegistrationRequest.listeners`."""

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
    """An element of `BrokerRegistrationRequest.features`."""

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


class BrokerRegistrationRequest(Request["BrokerRegistrationResponse"]):
    """Request, versions 0 to 4, flexible."""

    __slots__ = (
        "broker_id",
        "cluster_id",
        "incarnation_id",
        "listeners",
        "features",
        "rack",
        "is_migrating_zk_broker",
        "log_dirs",
        "previous_broker_epoch",
    )

    API_KEY = 62
    VERSIONS = (0, 4)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("broker_id", "int32", (0, 32767), None, None, 0, False),
        ("cluster_id", "string", (0, 32767), None, None, "", False),
        ("incarnation_id", "uuid", (0, 32767), None, None, 0, False),
        ("listeners", "[Listener]", (0, 32767), None, None, (), False),
        ("features", "[Feature]", (0, 32767), None, None, (), False),
        ("rack", "string", (0, 32767), (0, 32767), None, "", False),
        ("is_migrating_zk_broker", "bool", (1, 32767), None, None, False, False),
        ("log_dirs", "[uuid]", (2, 32767), None, None, (), True),
        ("previous_broker_epoch", "int64", (3, 32767), None, None, -1, True),
    )

    def __init__(
        self,
        *,
        broker_id: int = 0,
        cluster_id: str = "",
        incarnation_id: Uuid = Uuid.ZERO,
        listeners: list[Listener] = EMPTY,
        features: list[Feature] = EMPTY,
        rack: str | None = "",
        is_migrating_zk_broker: bool = False,
        log_dirs: list[Uuid] = EMPTY,
        previous_broker_epoch: int = -1,
    ) -> None:
        self.broker_id = broker_id
        self.cluster_id = cluster_id
        self.incarnation_id = incarnation_id
        self.listeners = [] if listeners is EMPTY else listeners
        self.features = [] if features is EMPTY else features
        self.rack = rack
        self.is_migrating_zk_broker = is_migrating_zk_broker
        self.log_dirs = [] if log_dirs is EMPTY else log_dirs
        self.previous_broker_epoch = previous_broker_epoch


class BrokerRegistrationResponse(Message):
    """Response, versions 0 to 4, flexible."""

    __slots__ = ("throttle_time_ms", "error_code", "broker_epoch")

    API_KEY = 62
    VERSIONS = (0, 4)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("broker_epoch", "int64", (0, 32767), None, None, -1, False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        broker_epoch: int = -1,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.broker_epoch = broker_epoch
