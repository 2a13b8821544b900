"""The fields of audit events. Events are plain dictionaries, which become JSON objects on a worker thread."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ottla.wire.api import API_SPECS, ApiKey

if TYPE_CHECKING:
    from ottla.broker.context import RequestContext
    from ottla.model.access import Operation, ResourceType

__all__ = ["AUTHENTICATION", "AUTHORIZATION", "STREAMS", "Event", "as_line", "authorization_event", "login_event"]

AUTHORIZATION, AUTHENTICATION = "authorization", "authentication"
STREAMS = (AUTHORIZATION, AUTHENTICATION)

# A name of a client's choice may be as long as a request; that many characters of it are kept.
TEXT_MAX = 1_000

Event = dict[str, Any]


def authorization_event(
    context: RequestContext,
    operation: Operation,
    resource_type: ResourceType,
    resource: str,
    *,
    is_allowed: bool,
    rule: str,
    sample: int,
) -> Event:
    connection = context.connection
    return {
        "stream": AUTHORIZATION,
        "decision": "allowed" if is_allowed else "denied",
        "principal": str(connection.principal)[:TEXT_MAX],
        "address": connection.client_host,
        "listener": connection.listener.name,
        "client_id": context.client_id and context.client_id[:TEXT_MAX],
        "api": API_SPECS[ApiKey(context.api_key)].name,
        "version": context.api_version,
        "correlation_id": context.correlation_id,
        "operation": operation.name,
        "resource_type": resource_type.name,
        "resource": resource[:TEXT_MAX],
        "rule": rule,
        # The sampling rate: one of this number of decisions is recorded.
        "sample": sample,
    }


def login_event(
    *, address: str, listener: str, mechanism: str, principal: str | None, reason: str | None, is_again: bool
) -> Event:
    """`reason` is why the login was refused, None if it was accepted."""
    return {
        "stream": AUTHENTICATION,
        "decision": "accepted" if reason is None else "refused",
        "principal": None if principal is None else principal[:TEXT_MAX],
        "address": address,
        "listener": listener,
        "mechanism": mechanism,
        "again": is_again,
        "reason": None if reason is None else reason[:TEXT_MAX],
    }


def as_line(event: Event, *, time_ms: int, node_id: int) -> bytes:
    moment = datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    whole = {"time": moment.replace("+00:00", "Z"), "node": node_id, **event}
    return json.dumps(whole, separators=(",", ":")).encode()
