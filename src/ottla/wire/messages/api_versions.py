# Written by tools/generate_messages.py from definitions/18_api_versions.txt: change the definition, not this file.
"""ApiVersions, API key 18.

The APIs and versions of a node. The response always has header version 0.
A version that is too new is answered with version 0, UNSUPPORTED_VERSION and the entry of this API (KIP-511). Up to
3 a feature whose minimum is 0 is left out of the answer; 4 repairs that (KAFKA-17011). 5 has the ids of
the cluster and the node that the client expects; another node answers REBOOTSTRAP_REQUIRED (KIP-1242).
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "ApiVersion",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "FinalizedFeatureKey",
    "SupportedFeatureKey",
]


class ApiVersionsRequest(Request["ApiVersionsResponse"]):
    """Request, versions 0 to 5, flexible since 3."""

    __slots__ = ("client_software_name", "client_software_version", "cluster_id", "node_id")

    API_KEY = 18
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 3
    FIELDS = (
        ("client_software_name", "string", (3, 32767), None, None, "", True),
        ("client_software_version", "string", (3, 32767), None, None, "", True),
        ("cluster_id", "string", (5, 32767), (0, 32767), None, None, True),
        ("node_id", "int32", (5, 32767), None, None, -1, True),
    )

    def __init__(
        self,
        *,
        client_software_name: str = "",
        client_software_version: str = "",
        cluster_id: str | None = None,
        node_id: int = -1,
    ) -> None:
        self.client_software_name = client_software_name
        self.client_software_version = client_software_version
        self.cluster_id = cluster_id
        self.node_id = node_id


class ApiVersion(Structure):
    """An element of `ApiVersionsResponse.api_keys`."""

    __slots__ = ("api_key", "min_version", "max_version")

    FIELDS = (
        ("api_key", "int16", (0, 32767), None, None, 0, False),
        ("min_version", "int16", (0, 32767), None, None, 0, False),
        ("max_version", "int16", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        api_key: int = 0,
        min_version: int = 0,
        max_version: int = 0,
    ) -> None:
        self.api_key = api_key
        self.min_version = min_version
        self.max_version = max_version


class SupportedFeatureKey(Structure):
    """An element of `ApiVersionsResponse.supported_features`."""

    __slots__ = ("name", "min_version", "max_version")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("min_version", "int16", (0, 32767), None, None, 0, False),
        ("max_version", "int16", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        min_version: int = 0,
        max_version: int = 0,
    ) -> None:
        self.name = name
        self.min_version = min_version
        self.max_version = max_version


class FinalizedFeatureKey(Structure):
    """An element of `ApiVersionsResponse.finalized_features`."""

    __slots__ = ("name", "max_version_level", "min_version_level")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("max_version_level", "int16", (0, 32767), None, None, 0, False),
        ("min_version_level", "int16", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        max_version_level: int = 0,
        min_version_level: int = 0,
    ) -> None:
        self.name = name
        self.max_version_level = max_version_level
        self.min_version_level = min_version_level


class ApiVersionsResponse(Message):
    """Response, versions 0 to 5, flexible since 3."""

    __slots__ = (
        "error_code",
        "api_keys",
        "throttle_time_ms",
        "supported_features",
        "finalized_features_epoch",
        "finalized_features",
        "zk_migration_ready",
    )

    API_KEY = 18
    VERSIONS = (0, 5)
    FLEXIBLE_SINCE = 3
    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("api_keys", "[ApiVersion]", (0, 32767), None, None, (), False),
        ("throttle_time_ms", "int32", (1, 32767), None, None, 0, True),
        ("supported_features", "[SupportedFeatureKey]", (3, 32767), None, 0, (), True),
        ("finalized_features_epoch", "int64", (3, 32767), None, 1, -1, True),
        ("finalized_features", "[FinalizedFeatureKey]", (3, 32767), None, 2, (), True),
        ("zk_migration_ready", "bool", (3, 32767), None, 3, False, True),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        api_keys: list[ApiVersion] = EMPTY,
        throttle_time_ms: int = 0,
        supported_features: list[SupportedFeatureKey] = EMPTY,
        finalized_features_epoch: int = -1,
        finalized_features: list[FinalizedFeatureKey] = EMPTY,
        zk_migration_ready: bool = False,
    ) -> None:
        self.error_code = error_code
        self.api_keys = [] if api_keys is EMPTY else api_keys
        self.throttle_time_ms = throttle_time_ms
        self.supported_features = [] if supported_features is EMPTY else supported_features
        self.finalized_features_epoch = finalized_features_epoch
        self.finalized_features = [] if finalized_features is EMPTY else finalized_features
        self.zk_migration_ready = zk_migration_ready
