"""The schema of an id belongs to the context of the request, or of the subject in it, as in Confluent's registry."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.registry.core.errors import RegistryError
from ottla.registry.core.registration import decide_register
from ottla.registry.core.registry import Registry
from ottla.registry.core.requests import schema_request


@pytest.fixture
def registry() -> Registry:
    """Id 1 has another schema in each of three contexts; the contexts .a and .b have the id 2, too."""
    made = Registry()
    schemas: list[tuple[str, Any]] = [
        ("users", '"int"'),
        (":.a:orders", '"string"'),
        (":.b:orders-b", '"bytes"'),
        (":.a:more", '"long"'),
        (":.b:more-b", '"double"'),
    ]
    for subject, schema in schemas:
        request = schema_request({"schema": schema}, subject)
        for record in decide_register(made.state, made.schemas, subject, request)[0]:
            made.state.replay(record)
    return made


@pytest.mark.parametrize(
    ("schema_id", "subject", "schema"),
    [
        (1, "", '"int"'),
        (1, "users", '"int"'),
        # A subject without a context selects the context that has the id under this subject.
        (1, "orders", '"string"'),
        (1, "orders-b", '"bytes"'),
        (2, "more-b", '"double"'),
        (1, "unknown", '"int"'),
        (1, ":.a:", '"string"'),
        (1, ":.a:orders", '"string"'),
    ],
)
def test_the_schema_of_an_id(registry: Registry, schema_id: int, subject: str, schema: str) -> None:
    assert registry.version_by_id(schema_id, subject).content.text == schema


@pytest.mark.parametrize(
    ("schema_id", "subject"), [(2, ""), (2, "users"), (1, ":.a:users"), (1, ":.c:"), (3, "orders")]
)
def test_an_id_of_another_context_or_subject_is_not_found(registry: Registry, schema_id: int, subject: str) -> None:
    with pytest.raises(RegistryError) as caught:
        registry.version_by_id(schema_id, subject)
    assert caught.value.code == 40403


def test_the_versions_of_an_id(registry: Registry) -> None:
    assert [version.subject for version in registry.versions_by_id(1, "orders-b")] == [":.b:orders-b"]


def test_the_versions_of_an_id_in_the_default_context(registry: Registry) -> None:
    """`/contexts/./schemas/ids/1/versions` has the default context, written out, in place of the subject."""
    assert [version.subject for version in registry.versions_by_id(1, ":.:")] == ["users"]
