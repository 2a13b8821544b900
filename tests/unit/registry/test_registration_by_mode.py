"""Registrations in every mode, as by Confluent's registry.

A schema that is registered already is answered in every mode: it writes nothing, and serializers with
`auto.register.schemas`, which is the default, register before their first record. FORWARD takes ids like IMPORT.
"""

from __future__ import annotations

from typing import Any

import pytest

from ottla.registry.core.errors import RegistryError
from ottla.registry.core.records import Record
from ottla.registry.core.registration import decide_register
from ottla.registry.core.registry import Registry
from ottla.registry.core.requests import schema_request
from ottla.registry.core.settings import decide_config, decide_mode


def decided(registry: Registry, **body: Any) -> tuple[list[Record], dict[str, Any]]:
    return decide_register(registry.state, registry.schemas, "s", schema_request(body, "s"))


def replay(registry: Registry, records: list[Record]) -> None:
    for record in records:
        registry.state.replay(record)


@pytest.fixture
def registry() -> Registry:
    made = Registry()
    replay(made, decided(made, schema='"int"')[0])
    return made


def set_mode(registry: Registry, mode: str) -> None:
    replay(registry, decide_mode(registry.state, None, mode, is_forced=True)[0])


@pytest.mark.parametrize("mode", ["READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD"])
def test_a_known_schema_gets_its_id(registry: Registry, mode: str) -> None:
    set_mode(registry, mode)
    for body in ({"schema": '"int"'}, {"schema": '{"type": "int"}'}):
        records, answer = decided(registry, **body)
        assert (records, answer["id"], answer["version"]) == ([], 1, 1)


@pytest.mark.parametrize(
    "body",
    [
        {"schema": '"string"'},
        {"schema": ""},
        {"schema": '"int"', "version": 2},
        {"schema": '"int"', "id": 2},
        {"schema": '"int"', "metadata": {"properties": {"owner": "a"}}},
        {"schema": '"int"', "propagateSchemaTags": True},
    ],
)
def test_other_schemas_are_refused(registry: Registry, body: dict[str, Any]) -> None:
    set_mode(registry, "READONLY")
    with pytest.raises(RegistryError) as caught:
        decided(registry, **body)
    assert caught.value.code == 42205


def test_a_configuration_that_would_change_the_schema_prevents_the_answer(registry: Registry) -> None:
    replay(registry, decide_config(registry.state, "s", {"overrideMetadata": {"properties": {"owner": "a"}}})[0])
    set_mode(registry, "READONLY")
    with pytest.raises(RegistryError, match="read-only"):
        decided(registry, schema='"int"')


def test_the_mode_forward_takes_ids_and_compares_nothing(registry: Registry) -> None:
    set_mode(registry, "FORWARD")
    records, answer = decided(registry, schema='"string"', id=7, version=5)
    replay(registry, records)
    assert (answer["id"], answer["version"]) == (7, 5)
    with pytest.raises(RegistryError, match="Subject s is not in read-write mode"):
        decided(registry, schema='"bytes"')
