"""Quotas through `ottla configs` beside kafka-configs: what one sets the other shows."""

from __future__ import annotations

import re

import pytest

from tests.support.command_lines import Ours, Theirs, cluster, ours, theirs

__all__ = ["cluster", "ours", "theirs"]


def quota_lines(theirs: Theirs, *options: str) -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
    """Quotas that kafka-configs prints: `Quota configs for the default user-principal, client-id 'c' are k=v, ...`."""
    text = theirs("ConfigCommand", "--describe", *options)
    kinds = {"user-principal": "user", "client-id": "client-id", "ip": "ip"}
    quotas_by_entity = {}
    for entity_text, quotas in re.findall(r"^Quota configs for (.*) are (.*)$", text, re.MULTILINE):
        entity = {}
        for word in entity_text.split(", "):
            named = re.fullmatch(r"(\S+) '(.*)'", word)
            entity[kinds[named[1] if named else word.removeprefix("the default ")]] = named[2] if named else None
        pairs = (pair.split("=") for pair in quotas.split(", "))
        quotas_by_entity[tuple(sorted(entity.items()))] = {key: float(value) for key, value in pairs}
    return quotas_by_entity


QUOTA_ENTITIES: dict[str, list[str]] = {
    "user": ["--entity-type", "users", "--entity-name", "alice"],
    "user, short": ["--user", "alice"],
    "default user": ["--entity-type", "users", "--entity-default"],
    "both": ["--entity-type", "users", "--entity-name", "alice", "--entity-type", "clients", "--entity-name", "reader"],
    "default user of a client": [
        "--entity-type",
        "users",
        "--entity-default",
        "--entity-type",
        "clients",
        "--entity-name",
        "reader",
    ],
    "default client of a user": [
        "--entity-type",
        "users",
        "--entity-name",
        "alice",
        "--entity-type",
        "clients",
        "--entity-default",
    ],
    "client": ["--client", "reader"],
    "default client": ["--client-defaults"],
    "address": ["--entity-type", "ips", "--entity-name", "192.0.2.7"],
    "default address": ["--ip-defaults"],
}


@pytest.mark.parametrize("entity", QUOTA_ENTITIES.values(), ids=QUOTA_ENTITIES)
def test_quotas(ours: Ours, theirs: Theirs, entity: list[str]) -> None:
    is_address = "--ip-defaults" in entity or "ips" in entity
    first, second = ("connection_creation_rate", "") if is_address else ("producer_byte_rate", "request_percentage")
    ours("configs", "--alter", *entity, "--add-config", f"{first}=1000000")
    if second:
        theirs("ConfigCommand", "--alter", *entity, "--add-config", f"{second}=12.5")
    expected = quota_lines(theirs, *entity)
    assert list(expected.values()) == [{first: 1_000_000.0} | ({second: 12.5} if second else {})]

    def our_quotas() -> dict[tuple[tuple[str, str | None], ...], dict[str, float]]:
        json = ours("configs", "describe", *entity, "--json").json
        return {tuple(sorted(row["entity"].items())): row["quotas"] for row in json}

    assert our_quotas() == expected
    ours("configs", "alter", *entity, "--delete-config", first)
    assert our_quotas() == quota_lines(theirs, *entity)
    if second:
        theirs("ConfigCommand", "--alter", *entity, "--delete-config", second)
    assert our_quotas() == quota_lines(theirs, *entity) == {}
    assert "not set" in ours("configs", "alter", *entity, "--delete-config", first, code=1).stderr
    assert "INVALID_REQUEST" in ours("configs", "alter", *entity, "--set", "planets=1", code=1).stderr


def test_quotas_of_all(ours: Ours, theirs: Theirs) -> None:
    for entity in (["--user", "bob"], ["--user-defaults"], ["--user", "bob", "--client", "reader"]):
        ours("configs", "alter", *entity, "--set", "consumer_byte_rate=1000000")
    for options in (
        ["--entity-type", "users"],
        ["--entity-type", "users", "--entity-name", "bob", "--entity-type", "clients"],
    ):
        json = ours("configs", "describe", *options, "--json").json
        assert {tuple(sorted(row["entity"].items())): row["quotas"] for row in json} == quota_lines(theirs, *options)
        assert json
    for entity in (["--user", "bob"], ["--user-defaults"], ["--user", "bob", "--client", "reader"]):
        ours("configs", "alter", *entity, "--unset", "consumer_byte_rate")
