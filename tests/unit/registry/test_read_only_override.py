"""READONLY_OVERRIDE of the registry wins over the modes of all contexts and subjects, as in Confluent's registry."""

from __future__ import annotations

import pytest

from ottla.registry.core.errors import RegistryError
from ottla.registry.core.registration import decide_register
from ottla.registry.core.registry import Registry
from ottla.registry.core.requests import schema_request
from ottla.registry.core.settings import decide_mode


def registry(*modes: tuple[str | None, str]) -> Registry:
    made = Registry()
    for owner, mode in modes:
        for record in decide_mode(made.state, owner, mode, is_forced=False)[0]:
            made.state.replay(record)
    return made


@pytest.mark.parametrize("subject", ["orders", ":.staging:orders"])
@pytest.mark.parametrize("inner", [None, ":.staging:", ":.staging:orders"])
def test_nothing_can_be_registered(subject: str, inner: str | None) -> None:
    made = registry((inner, "READWRITE"), (None, "READONLY_OVERRIDE"))
    with pytest.raises(RegistryError, match="in read-only mode"):
        decide_register(made.state, made.schemas, subject, schema_request({"schema": '"int"'}, subject))
    assert made.mode(subject, inherits=True) == "READONLY_OVERRIDE"


def test_other_modes_of_the_registry_are_not_those_of_contexts() -> None:
    made = registry((None, "READONLY"))
    assert made.mode(":.staging:orders", inherits=True) == "READWRITE"
