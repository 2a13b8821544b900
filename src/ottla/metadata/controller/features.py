"""Decisions about feature levels (KIP-584, KIP-1022).

A level is raised only if every registered node supports it and the features that it depends on are at their required
levels. It is lowered only if the request allows a downgrade, and `metadata.version` only to a level that can express
every record in the log. All updates of a request are made, or none. `kraft.version` is in the quorum's own control
records: it is checked with the other updates and raised after their commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

from ottla.metadata.controller.cluster import CONTROLLER_REGISTRATION_LEVEL
from ottla.metadata.controller.decision import Decision, DecisionContext, KraftVersion
from ottla.metadata.image import ResourceType
from ottla.metadata.versions import METADATA_VERSION, feature_dependencies, loses_metadata, supported_features
from ottla.model.errors import ErrorCode, KafkaError
from ottla.quorum.reconfiguration import KRAFT_VERSION
from ottla.wire.messages.metadata_records import ConfigRecord, FeatureLevelRecord
from ottla.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

__all__ = ["UpgradeType", "check_direction", "decide_update_features"]

ELIGIBLE_LEADER_REPLICAS = "eligible.leader.replicas.version"
MIN_INSYNC_REPLICAS = "min.insync.replicas"

# Kafka's tool and tests expect these texts word for word; see docs/decisions/0005-sentences-on-the-wire.md.
ALL_OR_NOTHING = "The update failed for all features since the following feature had an error:"
NOT_ASKED_TO_GO_DOWN = (
    "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
)
NOT_DOWN = "Can't downgrade to a newer version."


class UpgradeType(IntEnum):
    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def decide_update_features(
    request: UpdateFeaturesRequest, context: DecisionContext
) -> Decision[UpdateFeaturesResponse]:
    kraft_version = context.kraft_version
    own: list[FeatureUpdateKey] = []
    of_quorum: list[FeatureUpdateKey] = []
    for update in request.feature_updates:
        is_of_quorum = kraft_version is not None and update.feature == KRAFT_VERSION
        (of_quorum if is_of_quorum else own).append(update)
    try:
        if kraft_version is not None and of_quorum:
            _check_kraft_version(of_quorum, kraft_version)
        records = _level_records(own, context)
    except KafkaError as error:
        return Decision([], UpdateFeaturesResponse(error_code=error.code, error_message=error.message))
    response = UpdateFeaturesResponse(
        error_message=None, results=[UpdatableFeatureResult(feature=update.feature) for update in (*own, *of_quorum)]
    )
    if request.validate_only:
        return Decision([], response)
    if kraft_version is None or not of_quorum:
        return Decision(records, response)
    level, upgrade = of_quorum[0].max_version_level, kraft_version.upgrade
    return Decision(
        records, response, after_commit=lambda: upgrade(level, validate_only=False).then(lambda _: response)
    )


def _level_records(updates: Sequence[FeatureUpdateKey], context: DecisionContext) -> list[Any]:
    # The levels after all updates: features may depend on each other.
    proposed = {
        **context.image.features.finalized,
        **{update.feature: update.max_version_level for update in updates},
    }
    records: list[Any] = []
    updated: set[str] = set()
    for update in updates:
        if update.feature in updated:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{update.feature} is given more than once")
        updated.add(update.feature)
        records += _update_one(update, proposed, context)
    if proposed.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0 and ELIGIBLE_LEADER_REPLICAS in updated:
        records = [*_shared_min_insync_replicas(context), *records]
    return records


def _check_kraft_version(updates: Sequence[FeatureUpdateKey], kraft_version: KraftVersion) -> None:
    if len(updates) > 1:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"{KRAFT_VERSION} is given more than once")
    (update,) = updates
    level = update.max_version_level
    check_direction(KRAFT_VERSION, present=kraft_version.level(), wanted=level, upgrade_type=update.upgrade_type)
    refused = kraft_version.upgrade(level, validate_only=True).error
    if isinstance(refused, KafkaError):
        raise refused


def check_direction(name: str, *, present: int, wanted: int, upgrade_type: int) -> None:
    """Raises INVALID_UPDATE_VERSION for a downgrade without permission, and for a downgrade to a higher level."""
    is_upgrade = upgrade_type == UpgradeType.UPGRADE
    if (wanted < present and is_upgrade) or (wanted > present and not is_upgrade):
        reason = NOT_ASKED_TO_GO_DOWN if is_upgrade else NOT_DOWN
        raise KafkaError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"{ALL_OR_NOTHING} Invalid update version {wanted} for feature {name}. {reason}",
        )


def _update_one(update: FeatureUpdateKey, proposed: Mapping[str, int], context: DecisionContext) -> list[Any]:
    image = context.image
    name, wanted = update.feature, update.max_version_level
    present = image.features.finalized.get(name, 0)
    upgrade_type = update.upgrade_type
    if context.api_version == 0:
        # Apache Kafka ignores the downgrade flag of version 0, too.
        upgrade_type = UpgradeType.UPGRADE
    if upgrade_type not in (UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE, UpgradeType.UNSAFE_DOWNGRADE):
        raise _refusal(name, wanted, f"unknown upgrade type {upgrade_type}")
    if wanted < 0:
        raise _refusal(name, wanted, "levels start at 0")
    _check_supported(name, wanted, context)
    check_direction(name, present=present, wanted=wanted, upgrade_type=upgrade_type)
    if name == METADATA_VERSION and loses_metadata(present=present, wanted=wanted):
        # An unsafe downgrade may lose metadata by definition, but no release of Apache Kafka supports it.
        raise _refusal(name, wanted, f"the log may contain records that only levels up to {present} can express")
    if name == KRAFT_VERSION and wanted != present:
        raise _refusal(name, wanted, "the voters of this quorum cannot change yet, so neither can its version")
    for needed, level in feature_dependencies(name, wanted):
        if proposed.get(needed, 0) < level:
            raise _refusal(name, wanted, f"it requires {needed} at level {level} or higher")
    return [] if wanted == present else [FeatureLevelRecord(name=name, feature_level=wanted)]


def _refusal(name: str, wanted: int, reason: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"{name} cannot be set to {wanted}: {reason}")


def _check_supported(name: str, wanted: int, context: DecisionContext) -> None:
    """Raises INVALID_UPDATE_VERSION unless every node of the cluster supports the level, starting with this node."""
    image, own = context.image, supported_features(unstable=context.config.unstable_feature_versions_enable)
    if name not in own:
        raise _refusal(name, wanted, "this release has no such feature")
    lowest, highest = own[name]
    if not lowest <= wanted <= highest:
        raise _refusal(name, wanted, f"this release has the levels {lowest} to {highest}")
    nodes = [
        ("controller", controller.controller_id, controller.features)
        for controller in image.cluster.controllers.values()
    ]
    nodes += [("broker", broker.broker_id, broker.features) for broker in image.brokers.values()]
    for kind, node_id, features in nodes:
        least, most = features.get(name, (0, 0))
        if not least <= wanted <= most:
            raise _refusal(name, wanted, f"{kind} {node_id} has the levels {least} to {most}")
    if image.features.metadata_version >= CONTROLLER_REGISTRATION_LEVEL:
        for voter in sorted(context.config.quorum_voters):
            if voter != context.config.node_id and voter not in image.cluster.controllers:
                raise _refusal(name, wanted, f"controller {voter} has not registered, and may not support it")


def _shared_min_insync_replicas(context: DecisionContext) -> list[Any]:
    """With eligible leader replicas, `min.insync.replicas` must be the same for all brokers (KIP-966)."""
    configs, name = context.image.configs, MIN_INSYNC_REPLICAS
    records: list[Any] = []
    if name not in configs.of_all_brokers():
        # The static value of this node. Dynamic values of single brokers are removed below.
        value = str(context.config.with_dynamic(dynamic={}, dynamic_defaults={}).min_insync_replicas)
        records.append(ConfigRecord(resource_type=ResourceType.BROKER, resource_name="", name=name, value=value))
    records += [
        ConfigRecord(resource_type=ResourceType.BROKER, resource_name=resource.name, name=name, value=None)
        for resource, values in sorted(configs.by_resource.items())
        if resource.type == ResourceType.BROKER and resource.name and name in values
    ]
    return records
