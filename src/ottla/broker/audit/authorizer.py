"""Wraps the node's authorizer and records its decisions in the audit trail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from ottla.broker.audit.events import authorization_event
from ottla.broker.internal_topics import AUDIT_TOPIC
from ottla.model.access import Operation, ResourceType

if TYPE_CHECKING:
    from ottla.broker.audit.trail import AuditTrail
    from ottla.broker.authorization import Authorizer
    from ottla.broker.context import RequestContext

__all__ = ["AuditingAuthorizer"]

_READS = frozenset({Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS, Operation.DESCRIBE_TOKENS})


class _Explaining(Protocol):
    def explain(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> tuple[bool, str]:
        """The decision of `authorize`, and the rule that decided."""


class AuditingAuthorizer:
    __slots__ = ("_authorizer", "_explaining", "_read_sample", "_reads", "_records_allowed", "_trail")

    def __init__(self, authorizer: Authorizer, trail: AuditTrail, *, records_allowed: bool, read_sample: int) -> None:
        self._authorizer = authorizer
        explains = hasattr(authorizer, "explain")
        self._explaining = cast("_Explaining", authorizer) if explains else None
        self._trail = trail
        self._records_allowed = records_allowed
        self._read_sample = read_sample
        self._reads = 0

    @property
    def decisions_version(self) -> int:
        return self._authorizer.decisions_version

    def authorize(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        is_allowed, rule = self._decide(context, operation, resource_type, resource_name)
        self._record(context, operation, resource_type, resource_name, is_allowed, rule)
        return is_allowed

    def authorize_softly(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> bool:
        """For `RequestContext.would_allow`: a denial refuses no request, so it is not recorded."""
        is_allowed, rule = self._decide(context, operation, resource_type, resource_name)
        if is_allowed:
            self._record(context, operation, resource_type, resource_name, is_allowed, rule)
        return is_allowed

    def _decide(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType, resource_name: str
    ) -> tuple[bool, str]:
        if self._explaining is not None:
            return self._explaining.explain(context, operation, resource_type, resource_name)
        authorizer = self._authorizer
        return authorizer.authorize(context, operation, resource_type, resource_name), type(authorizer).__name__

    def authorize_by_resource_type(
        self, context: RequestContext, operation: Operation, resource_type: ResourceType
    ) -> bool:
        is_allowed = self._authorizer.authorize_by_resource_type(context, operation, resource_type)
        self._record(context, operation, resource_type, "(any)", is_allowed, "all rules of the resource type")
        return is_allowed

    def authorized_operations(self, context: RequestContext, resource_type: ResourceType, resource_name: str) -> int:
        return self._authorizer.authorized_operations(context, resource_type, resource_name)

    def _record(
        self,
        context: RequestContext,
        operation: Operation,
        resource_type: ResourceType,
        resource: str,
        is_allowed: bool,
        rule: str,
    ) -> None:
        sample = 1
        if is_allowed:
            if not self._records_allowed:
                return
            if resource == AUDIT_TOPIC and operation is Operation.WRITE:
                # Another node writes its audit events. An event about them would cause the next one, without end.
                return
            if operation in _READS:
                sample = self._read_sample
                self._reads += 1
                if self._reads % sample:
                    return
        self._trail.note(
            authorization_event(
                context, operation, resource_type, resource, is_allowed=is_allowed, rule=rule, sample=sample
            )
        )
