"""CLEAR_SUBJECT records of Confluent's registry hide the deleted versions of a subject, a context or everything."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.registry.core.records import Record
from ottla.registry.core.registry import Registry


def replayed(*pairs: tuple[dict[str, Any], dict[str, Any]]) -> Registry:
    registry = Registry()
    for key, value in pairs:
        record = Record.decode(json.dumps(key).encode(), json.dumps(value).encode())
        assert record is not None
        registry.state.replay(record)
    return registry


def version(subject: str, schema: str, *, deleted: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    key = {"keytype": "SCHEMA", "subject": subject, "version": 1, "magic": 1}
    return key, {"subject": subject, "version": 1, "id": 1, "schema": schema, "deleted": deleted}


def cleared(subject: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"keytype": "CLEAR_SUBJECT", "subject": subject, "magic": 0}, {"subject": subject}


@pytest.mark.parametrize(
    ("owner", "context"), [(None, ""), (":.staging:", ":.staging:"), (None, ":.staging:"), ("former", "")]
)
def test_an_id_that_was_imported_again_has_the_imported_schema(owner: str | None, context: str) -> None:
    registry = replayed(
        version(f"{context}former", '"int"', deleted=True),
        cleared(owner),
        version(f"{context}imported", '"string"', deleted=False),
    )
    assert registry.version_by_id(1, context).content.text == '"string"'
    assert registry.state.versions(f"{context}former", with_deleted=True) == []


def test_versions_that_are_not_deleted_and_other_subjects_stay() -> None:
    live, other = version("live", '"int"', deleted=False), version(":.other:x", '"string"', deleted=True)
    registry = replayed(live, other, cleared(":.staging:"), cleared("live"))
    assert registry.state.subjects(with_deleted=True) == [":.other:x", "live"]
