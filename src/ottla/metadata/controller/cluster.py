"""Decisions about the cluster as a whole: the registration of controllers, and a sign of life in an idle log."""

from __future__ import annotations

from random import Random

from ottla.metadata.controller.decision import Decision, DecisionContext
from ottla.metadata.versions import supported_features
from ottla.model.config import BrokerConfig
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.wire.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
    Feature,
    Listener,
)
from ottla.wire.messages.metadata_records import (
    ControllerEndpoint,
    ControllerFeature,
    NoOpRecord,
    RegisterControllerRecord,
)

__all__ = ["CONTROLLER_REGISTRATION_LEVEL", "decide_register_controller", "decide_write_no_op", "own_registration"]

# From 3.7-IV0 on, controllers register too (KIP-919).
CONTROLLER_REGISTRATION_LEVEL = 15


# In the order of their numbers in the protocol.
_SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def own_registration(config: BrokerConfig, random: Random) -> ControllerRegistrationRequest:
    """The registration of the controller of this process; every process has a new incarnation id."""
    return ControllerRegistrationRequest(
        controller_id=config.node_id,
        incarnation_id=Uuid.random(random),
        listeners=[
            Listener(
                name=endpoint.listener_name,
                host=endpoint.host,
                port=endpoint.port,
                security_protocol=_SECURITY_PROTOCOLS.index(endpoint.security_protocol),
            )
            for endpoint in config.controller_endpoints
        ],
        features=[
            Feature(name=name, min_supported_version=lowest, max_supported_version=highest)
            for name, (lowest, highest) in supported_features(unstable=config.unstable_feature_versions_enable).items()
        ],
    )


def decide_register_controller(
    request: ControllerRegistrationRequest, context: DecisionContext
) -> Decision[ControllerRegistrationResponse]:
    if context.image.features.metadata_version < CONTROLLER_REGISTRATION_LEVEL:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            "the metadata.version of the cluster is too old for the registration of controllers",
        )
    record = RegisterControllerRecord(
        controller_id=request.controller_id,
        incarnation_id=request.incarnation_id,
        zk_migration_ready=False,
        end_points=[
            ControllerEndpoint(
                name=listener.name, host=listener.host, port=listener.port, security_protocol=listener.security_protocol
            )
            for listener in request.listeners
        ],
        features=[
            ControllerFeature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in request.features
        ],
    )
    return Decision([record], ControllerRegistrationResponse())


def decide_write_no_op(context: DecisionContext) -> Decision[bool]:  # noqa: ARG001
    """A record without effect, written every `metadata.max.idle.interval.ms` (KIP-835)."""
    return Decision([NoOpRecord()], False)
