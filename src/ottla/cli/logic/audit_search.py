"""The filter of an audit search, and the table row of an audit event."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

__all__ = ["COLUMNS", "AuditSearch", "events", "row"]

COLUMNS = ("TIME", "DECISION", "PRINCIPAL", "ADDRESS", "WHAT", "RULE OR REASON")

Event = dict[str, Any]


class AuditSearch(NamedTuple):
    """A field that is None does not filter. Names may contain shell wildcards."""

    stream: str | None = None
    principal: str | None = None
    resource: str | None = None
    api: str | None = None
    operation: str | None = None
    decision: str | None = None
    address: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None

    def wants(self, event: Event) -> bool:
        names = (
            (self.stream, event.get("stream")),
            (self.principal, event.get("principal")),
            (self.address, event.get("address")),
        )
        if not all(_matches(pattern, value) for pattern, value in names):
            return False
        words = ((self.api, event.get("api")), (self.operation, event.get("operation")))
        if not all(pattern is None or pattern.lower() == str(value).lower() for pattern, value in words):
            return False
        if self.resource is not None and not (
            _matches(self.resource, event.get("resource"))
            or _matches(self.resource, f"{event.get('resource_type')}:{event.get('resource')}")
        ):
            return False
        return self._is_decision(event.get("decision")) and self._is_in_time(event)

    def _is_decision(self, decision: object) -> bool:
        """`denied` and `refused` are the same for a search, and so are `allowed` and `accepted`."""
        if self.decision is None:
            return True
        is_wanted_good = self.decision in ("allowed", "accepted")
        return (decision in ("allowed", "accepted")) == is_wanted_good

    def _is_in_time(self, event: Event) -> bool:
        if self.since_ms is None and self.until_ms is None:
            return True
        moment = datetime.fromisoformat(str(event.get("time", "1970-01-01T00:00:00Z")).replace("Z", "+00:00"))
        ms = moment.astimezone(UTC).timestamp() * 1000
        return (self.since_ms is None or ms >= self.since_ms) and (self.until_ms is None or ms < self.until_ms)


def _matches(pattern: str | None, value: object) -> bool:
    return pattern is None or (value is not None and fnmatchcase(str(value), pattern))


def events(lines: Iterable[bytes | str]) -> Iterator[Event]:
    """The events of JSON lines. A truncated line, for example after a full disk, is skipped."""
    for line in lines:
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if isinstance(event, dict):
            yield event


def row(event: Event) -> tuple[str, ...]:
    if event.get("stream") == "authentication":
        again = " again" if event.get("again") else ""
        action = f"login{again} with {event.get('mechanism') or '?'} at {event.get('listener')}"
        why = event.get("reason")
    else:
        action = f"{event.get('api')} {event.get('operation')} {event.get('resource_type')}:{event.get('resource')}"
        why = event.get("rule")
    sample = event.get("sample", 1)
    decision = f"{event.get('decision')}{f' (1 of {sample})' if sample != 1 else ''}"
    return (
        str(event.get("time")),
        decision,
        str(event.get("principal") or "-"),
        str(event.get("address")),
        action,
        str(why or "-"),
    )
