# Written by tools/generate_messages.py from definitions/57_update_features.txt: change the definition, not this file.
"""UpdateFeatures, API key 57.

Raises or lowers finalized feature levels.
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "FeatureUpdateKey",
    "UpdatableFeatureResult",
    "UpdateFeaturesRequest",
    "UpdateFeaturesResponse",
]


class FeatureUpdateKey(Structure):
    """An element of `UpdateFeaturesRequest.feature_updates`."""

    __slots__ = ("feature", "max_version_level", "allow_downgrade", "upgrade_type")

    FIELDS = (
        ("feature", "string", (0, 32767), None, None, "", False),
        ("max_version_level", "int16", (0, 32767), None, None, 0, False),
        ("allow_downgrade", "bool", (0, 0), None, None, False, False),
        ("upgrade_type", "int8", (1, 32767), None, None, 1, False),
    )

    def __init__(
        self,
        *,
        feature: str = "",
        max_version_level: int = 0,
        allow_downgrade: bool = False,
        upgrade_type: int = 1,
    ) -> None:
        self.feature = feature
        self.max_version_level = max_version_level
        self.allow_downgrade = allow_downgrade
        self.upgrade_type = upgrade_type


class UpdateFeaturesRequest(Request["UpdateFeaturesResponse"]):
    """Request, versions 0 to 2, flexible."""

    __slots__ = ("timeout_ms", "feature_updates", "validate_only")

    API_KEY = 57
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("timeout_ms", "int32", (0, 32767), None, None, 60000, False),
        ("feature_updates", "[FeatureUpdateKey]", (0, 32767), None, None, (), False),
        ("validate_only", "bool", (1, 32767), None, None, False, False),
    )

    def __init__(
        self,
        *,
        timeout_ms: int = 60000,
        feature_updates: list[FeatureUpdateKey] = EMPTY,
        validate_only: bool = False,
    ) -> None:
        self.timeout_ms = timeout_ms
        self.feature_updates = [] if feature_updates is EMPTY else feature_updates
        self.validate_only = validate_only


class UpdatableFeatureResult(Structure):
    """An element of `UpdateFeaturesResponse.results`."""

    __slots__ = ("feature", "error_code", "error_message")

    FIELDS = (
        ("feature", "string", (0, 32767), None, None, "", False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, "", False),
    )

    def __init__(
        self,
        *,
        feature: str = "",
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.feature = feature
        self.error_code = error_code
        self.error_message = error_message


class UpdateFeaturesResponse(Message):
    """Response, versions 0 to 2, flexible."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "results")

    API_KEY = 57
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, "", False),
        ("results", "[UpdatableFeatureResult]", (0, 1), None, None, (), True),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        results: list[UpdatableFeatureResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = [] if results is EMPTY else results
