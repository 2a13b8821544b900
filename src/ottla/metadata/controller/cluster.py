"""Decisions about the cluster as a whole: which controllers there are."""

from __future__ import annotations

from ottla.metadata.controller.decision import Decision, DecisionContext
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse
from ottla.wire.messages.metadata_records import ControllerEndpoint, ControllerFeature, RegisterControllerRecord

__all__ = ["CONTROLLER_REGISTRATION_LEVEL", "decide_register_controller"]

# From 3.7-IV0 on controllers register too (KIP-919).
CONTROLLER_REGISTRATION_LEVEL = 15


def decide_register_controller(
    request: ControllerRegistrationRequest, context: DecisionContext
) -> Decision[ControllerRegistrationResponse]:
    if context.image.features.metadata_version < CONTROLLER_REGISTRATION_LEVEL:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, "the cluster's metadata.version is too old for controllers to register"
        )
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=False,
        end_points=[
            ControllerEndpoint(name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol)
            for each in request.listeners
        ],
        features=[
            ControllerFeature(
                name=each.name,
                min_supported_version=each.min_supported_version,
                max_supported_version=each.max_supported_version,
            )
            for each in request.features
        ],
    )
    return Decision([record], ControllerRegistrationResponse())
