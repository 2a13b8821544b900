"""Decisions about feature levels (KIP-584, KIP-1022): what the whole cluster may rely on.

A level is raised only when every registered node supports it. It is lowered only when the caller says that it may be,
and then only where nothing that was written under the higher level would be lost on reading. All updates of a request
go together or not at all.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from ottla.metadata.controller.decision import Decision, DecisionContext
from ottla.metadata.image import MetadataImage
from ottla.metadata.versions import METADATA_VERSION, SUPPORTED_FEATURES, metadata_version_name
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.metadata_records import FeatureLevelRecord
from ottla.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

__all__ = ["UpgradeType", "decide_update_features"]


class UpgradeType(IntEnum):
    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def decide_update_features(
    request: UpdateFeaturesRequest, context: DecisionContext
) -> Decision[UpdateFeaturesResponse]:
    records: list[Any] = []
    seen: set[str] = set()
    for update in request.feature_updates:
        try:
            if update.feature in seen:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"{update.feature} is given more than once")
            seen.add(update.feature)
            records += _update_one(update, context.image, context.api_version)
        except KafkaError as error:
            return Decision([], UpdateFeaturesResponse(error_code=error.code, error_message=error.message))
    results = [UpdatableFeatureResult(feature=update.feature) for update in request.feature_updates]
    return Decision(
        [] if request.validate_only else records, UpdateFeaturesResponse(error_message=None, results=results)
    )


def _update_one(update: FeatureUpdateKey, image: MetadataImage, api_version: int) -> list[Any]:
    name, wanted = update.feature, update.max_version_level
    present = image.features.finalized.get(name, 0)
    upgrade_type = update.upgrade_type
    if api_version == 0:
        # That version's own flag for downgrades is not honoured in Apache Kafka either.
        upgrade_type = UpgradeType.UPGRADE
    if upgrade_type not in (UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE):
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"there is no upgrade of type {upgrade_type}")
    _check_supported(name, wanted, image)
    if wanted < present and upgrade_type == UpgradeType.UPGRADE:
        raise KafkaError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"{name} is at level {present}; going down to {wanted} has to be asked for as a downgrade",
        )
    if wanted > present and upgrade_type != UpgradeType.UPGRADE:
        raise KafkaError(
            ErrorCode.INVALID_UPDATE_VERSION, f"{name} is at level {present}; going up to {wanted} is no downgrade"
        )
    if name == METADATA_VERSION and wanted < present:
        # Lower levels cannot express parts of what the log holds, and dropping them silently is no answer.
        raise KafkaError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"metadata.version cannot go from {metadata_version_name(present)} down to "
            f"{metadata_version_name(wanted)}: metadata would be lost",
        )
    if name == "kraft.version" and wanted != present:
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, "kraft.version cannot be changed with a single voter yet")
    return [] if wanted == present else [FeatureLevelRecord(name=name, feature_level=wanted)]


def _check_supported(name: str, wanted: int, image: MetadataImage) -> None:
    supported = SUPPORTED_FEATURES.get(name)
    if supported is None:
        raise KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"there is no feature named {name!r}")
    lowest, highest = supported
    if not lowest <= wanted <= highest:
        raise KafkaError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"{name} has levels {lowest} to {highest} in this release, and {wanted} is none of them",
        )
    for broker in image.brokers.values():
        least, most = broker.features.get(name, (0, 0))
        if not least <= wanted <= most:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION,
                f"broker {broker.broker_id} supports levels {least} to {most} of {name}, not {wanted}",
            )
