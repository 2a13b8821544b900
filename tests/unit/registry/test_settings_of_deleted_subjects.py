"""The settings of a subject are deleted with its last version for good, as by Confluent's registry."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.registry.core.deletion import decide_delete_version
from ottla.registry.core.records import Record
from ottla.registry.core.registration import decide_register
from ottla.registry.core.registry import Registry
from ottla.registry.core.requests import schema_request
from ottla.registry.core.settings import decide_config, decide_mode


def replay(registry: Registry, decided: tuple[list[Record], Any]) -> None:
    for record in decided[0]:
        registry.state.replay(record)


@pytest.fixture
def registry() -> Registry:
    made = Registry()
    replay(made, decide_config(made.state, "s", {"compatibility": "NONE"}))
    for schema in ('"int"', '"string"'):
        request = schema_request({"schema": schema}, "s")
        replay(made, decide_register(made.state, made.schemas, "s", request))
    replay(made, decide_config(made.state, "s", {"compatibility": "FULL"}))
    replay(made, decide_mode(made.state, "s", "READWRITE", is_forced=False))
    return made


def delete(registry: Registry, number: int, *, is_permanent: bool) -> None:
    version = registry.version("s", str(number), with_deleted=True)
    replay(registry, decide_delete_version(registry.state, version, is_permanent=is_permanent))


def test_a_soft_deletion_of_the_last_version_keeps_the_settings(registry: Registry) -> None:
    for number in (1, 2):
        delete(registry, number, is_permanent=False)
    assert registry.config("s", inherits=False)["compatibilityLevel"] == "FULL"
    assert registry.mode("s", inherits=False) == "READWRITE"


def test_the_last_version_takes_the_settings_with_it(registry: Registry) -> None:
    for number in (1, 2):
        delete(registry, number, is_permanent=False)
    delete(registry, 1, is_permanent=True)
    assert "s" in registry.state.configs
    delete(registry, 2, is_permanent=True)
    assert (registry.state.configs, registry.state.modes) == ({}, {})
