"""Which audit events a search finds."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.cli.logic.audit_search import AuditSearch, events, row

DENIED = {
    "time": "2026-11-17T10:00:00.000Z",
    "stream": "authorization",
    "decision": "denied",
    "principal": "User:alice",
    "address": "10.0.0.1",
    "api": "Produce",
    "operation": "WRITE",
    "resource_type": "TOPIC",
    "resource": "orders",
    "rule": "no ACL allows it",
    "sample": 1,
}
LOGIN = {
    "time": "2026-11-17T11:00:00.000Z",
    "stream": "authentication",
    "decision": "accepted",
    "principal": "User:bob",
    "address": "10.0.0.2",
    "mechanism": "PLAIN",
    "listener": "CLIENTS",
}
TEN_THIRTY = 1_794_911_400_000


@pytest.mark.parametrize(
    ("wanted", "finds"),
    [
        ({}, [True, True]),
        ({"stream": "authorization"}, [True, False]),
        ({"principal": "User:a*"}, [True, False]),
        ({"resource": "orders"}, [True, False]),
        ({"resource": "TOPIC:ord*"}, [True, False]),
        ({"resource": "GROUP:*"}, [False, False]),
        ({"api": "produce", "operation": "Write"}, [True, False]),
        ({"decision": "refused"}, [True, False]),
        ({"decision": "allowed"}, [False, True]),
        ({"address": "10.0.0.2"}, [False, True]),
        ({"since_ms": TEN_THIRTY}, [False, True]),
        ({"until_ms": TEN_THIRTY}, [True, False]),
    ],
)
def test_what_a_search_finds(wanted: dict[str, Any], finds: list[bool]) -> None:
    assert [AuditSearch(**wanted).wants(event) for event in (DENIED, LOGIN)] == finds


def test_lines_that_are_cut_off_are_left_out() -> None:
    assert list(events([b'{"a": 1}\n', b'{"a": ', b"[]", b"\n"])) == [{"a": 1}]


def test_rows_say_what_happened() -> None:
    assert row(DENIED)[1:] == ("denied", "User:alice", "10.0.0.1", "Produce WRITE TOPIC:orders", "no ACL allows it")
    assert row({**DENIED, "decision": "allowed", "sample": 100})[1] == "allowed (1 of 100)"
    assert row(LOGIN)[4:] == ("login with PLAIN at CLIENTS", "-")
