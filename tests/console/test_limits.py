"""Limits for a viewer: expressions, masked keys, secrets of connectors, long schemas."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from ottla.console.filters import make_message_filter
from ottla.console.fixes import command_in, fix_of
from ottla.console.routes.schemas import LINES_MAX, difference
from ottla.console.sensitive import is_secret_of_connector


def message(value: Any) -> dict[str, Any]:
    field = {"type": "json", "value": value, "schema_id": None, "error": None}
    return {"key": field, "value": field, "headers": [], "partition": 0, "offset": 0, "timestamp": 0, "size": 0}


def matches(expression: str, value: Any) -> bool:
    message_filter = make_message_filter(expression)
    assert message_filter is not None
    return message_filter(message(value))


def test_an_expression_cannot_fill_the_memory() -> None:
    doubled = '["aaaaaaaa"]' + ".map(x, x + x)" * 40
    assert not matches(f"=size({doubled}[0]) > 0", {})
    lists = "[[1, 1, 1, 1]]" + ".map(x, x + x)" * 30
    assert not matches(f"=size({lists}[0]) > 0", {})
    assert not matches('=size("%999999999d" % 1) > 0', {})
    nested = "[[1, 1, 1, 1]]" + ".map(x, [x, x, x, x])" * 30
    assert not matches(f"={nested} == {nested}", {})
    assert matches('=value.a + "b" == "ab" && size([1] + [2]) == 2', {"a": "a"})


def test_a_number_that_is_too_large_does_not_match_and_breaks_nothing() -> None:
    assert not matches("=value.a > 1", {"a": 2**63})
    assert matches("=value.a > 1", {"a": 2})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("producer.override.sasl.jaas.config", "x"),
        ("basic.auth.user.info", "u:p"),
        ("aws.access.key.id", "x"),
        ("ssl.key.passphrase", "x"),
        ("connection.url", "jdbc:postgresql://h/d?user=u&password=p"),
        ("connection.url", "mongodb://u:p@h/d"),
        ("password", "${x}realsecret"),
    ],
)
def test_secrets_of_connectors_are_recognised(key: str, value: str) -> None:
    assert is_secret_of_connector(key, value)


def test_what_is_no_secret_is_shown() -> None:
    assert not is_secret_of_connector("password", "${file:/secrets:db}")
    assert not is_secret_of_connector("connection.url", "jdbc:postgresql://h:5432/d")


def test_the_difference_of_schemas_is_bounded() -> None:
    before, after = "\n".join(map(str, range(100_000))), "\n".join(map(str, range(50_000, 150_000)))
    assert len(difference(before, after)) <= 2 * LINES_MAX
    assert [row["kind"] for row in difference("a\nb", "a\nc")] == ["same", "removed", "added"]


def test_the_name_of_a_group_cannot_change_the_command() -> None:
    fix = fix_of(command_in(f"forget it: ottla groups delete {shlex.quote('payments x')}"))
    assert fix is not None
    assert fix["path"] == "/api/groups/payments%20x"
    assert fix_of(command_in("forget it: ottla groups delete payments x")) is None
