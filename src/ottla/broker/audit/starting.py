"""Creates the configured audit trail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.audit.authorizer import AuditingAuthorizer
from ottla.broker.audit.files import AuditFiles
from ottla.broker.audit.topic import AuditTopic
from ottla.broker.audit.trail import AuditTrail
from ottla.broker.authorization import AllowAll
from ottla.model.config.keys import ConfigError

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["start_audit"]


def start_audit(broker: Broker) -> AuditTrail:
    """Creates the trail, and records the decisions of the broker's authorizer in it. Raises ConfigError."""
    config = broker.config
    trail = AuditTrail(
        broker.world,
        broker.node_id,
        logs_logins=config.ottla_audit_authentication != "off",
        logs_accepted_logins=config.ottla_audit_authentication == "all",
    )
    if not config.ottla_audit_dir and not config.ottla_audit_topic:
        raise ConfigError(
            "The audit is switched on without a destination: set ottla.audit.dir or ottla.audit.topic=true.",
            key="ottla.audit.dir",
        )
    if config.ottla_audit_dir:
        trail.places.append(
            AuditFiles(
                broker.world.files,
                config.ottla_audit_dir,
                node_id=broker.node_id,
                bytes_max=config.ottla_audit_file_bytes,
                count=config.ottla_audit_file_count,
            )
        )
    if config.ottla_audit_topic:
        trail.places.append(AuditTopic(broker))
    if config.ottla_audit_authorization != "off":
        if type(broker.authorizer) is AllowAll:
            raise ConfigError(
                "ottla.audit.authorization needs an authorizer: set authorizer.class.name.",
                key="ottla.audit.authorization",
            )
        broker.authorizer = AuditingAuthorizer(
            broker.authorizer,
            trail,
            records_allowed=config.ottla_audit_authorization == "all",
            read_sample=config.ottla_audit_read_sample,
        )
    return trail
