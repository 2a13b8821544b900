"""The mode IMPORT deletes what is softly deleted, so that its ids can be imported, as in Confluent's registry."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.registry.core.deletion import decide_delete_subject
from ottla.registry.core.errors import RegistryError
from ottla.registry.core.records import Record
from ottla.registry.core.registration import decide_register
from ottla.registry.core.registry import Registry
from ottla.registry.core.requests import schema_request
from ottla.registry.core.settings import decide_mode


def write(registry: Registry, decided: tuple[list[Record], Any]) -> Any:
    records, answer = decided
    for record in records:
        decoded = Record.decode(*record.encoded())
        assert decoded is not None
        registry.state.replay(decoded)
    return answer


def register(registry: Registry, subject: str, **body: Any) -> Any:
    request = schema_request(body, subject)
    return write(registry, decide_register(registry.state, registry.schemas, subject, request))


@pytest.mark.parametrize("owner", [None, ":.staging:", ":.staging:former"])
def test_ids_of_deleted_schemas_can_be_imported(owner: str | None) -> None:
    registry = Registry()
    former = "former" if owner is None else ":.staging:former"
    register(registry, former, schema='"int"')
    write(registry, decide_delete_subject(registry.state, former, is_permanent=False))
    write(registry, decide_mode(registry.state, owner, "IMPORT", is_forced=False))
    assert register(registry, former, schema='"string"', id=1, version=1)["id"] == 1
    assert registry.version_by_id(1, former).content.text == '"string"'


def test_ids_are_not_assigned_again_after_the_import() -> None:
    registry = Registry()
    for schema in ('"int"', '"string"'):
        register(registry, schema.strip('"'), schema=schema)
        write(registry, decide_delete_subject(registry.state, schema.strip('"'), is_permanent=False))
    write(registry, decide_mode(registry.state, None, "IMPORT", is_forced=False))
    write(registry, decide_mode(registry.state, None, "READWRITE", is_forced=False))
    assert register(registry, "next", schema='"bytes"')["id"] == 3


def refer(registry: Registry) -> None:
    """Registers the version 1 of `b`, which is deleted then, and a version of `a` that refers to it."""
    register(registry, "b", schema='{"type":"record","name":"B","fields":[]}')
    write(registry, decide_delete_subject(registry.state, "b", is_permanent=False))
    register(
        registry,
        "a",
        schema='{"type":"record","name":"A","fields":[{"name":"x","type":"B"}]}',
        references=[{"name": "B", "subject": "b", "version": 1}],
    )


@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_deleted_version_that_a_schema_refers_to_prevents_the_mode(*, is_deleted: bool) -> None:
    registry = Registry()
    refer(registry)
    if is_deleted:
        # Consumers still read it by its id.
        write(registry, decide_delete_subject(registry.state, "a", is_permanent=False))
    with pytest.raises(RegistryError) as caught:
        decide_mode(registry.state, "b", "IMPORT", is_forced=False)
    assert caught.value.code == 42206


def test_deleted_versions_that_refer_to_each_other_go_together() -> None:
    registry = Registry()
    refer(registry)
    write(registry, decide_delete_subject(registry.state, "a", is_permanent=False))
    write(registry, decide_mode(registry.state, None, "IMPORT", is_forced=False))
    assert not registry.state.subjects(with_deleted=True)
