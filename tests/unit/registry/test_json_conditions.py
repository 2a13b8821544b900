"""Comparison of JSON Schemas: conditions, dependencies, names and unevaluated parts, beside a validator."""

from __future__ import annotations

import itertools
import json
from typing import Any

import jsonschema_rs
import pytest

from ottla.serdes.formats import JSON, SchemaSource, parse

DRAFT = "https://json-schema.org/draft/2020-12/schema"
CARD = {"properties": {"kind": {"const": "card"}}, "required": ["kind"]}
NUMBER = {"required": ["number"]}


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        ({"type": "object"}, {"type": "object", "if": CARD, "then": NUMBER}, "CONDITION_ADDED"),
        ({"type": "object", "if": CARD, "then": NUMBER}, {"type": "object"}, None),
        ({"if": CARD, "then": NUMBER}, {"if": CARD, "then": {"required": ["number", "date"]}}, "CONDITION_CHANGED"),
        ({"if": CARD, "then": {"required": ["number", "date"]}}, {"if": CARD, "then": NUMBER}, None),
        ({"if": CARD, "else": NUMBER}, {"if": CARD, "then": {}, "else": NUMBER}, None),
        ({"if": CARD, "then": NUMBER}, {"if": {"required": ["kind"]}, "then": NUMBER}, "CONDITION_CHANGED"),
        (
            {"type": "object", "required": ["number"]},
            {"type": "object", "required": ["number"], "if": CARD, "then": NUMBER},
            None,
        ),
        ({"dependentSchemas": {"a": NUMBER}}, {"dependentSchemas": {"a": {}}}, None),
        ({"dependentSchemas": {"a": {}}}, {"dependentSchemas": {"a": NUMBER}}, "DEPENDENCY_CHANGED"),
        ({"type": "object"}, {"type": "object", "dependentSchemas": {"a": NUMBER}}, "DEPENDENCY_ADDED"),
        ({"type": "object"}, {"type": "object", "dependentSchemas": {"a": {}}}, None),
        ({"type": "object"}, {"type": "object", "unevaluatedProperties": False}, "ADDITIONAL_PROPERTIES_REMOVED"),
        ({"type": "object", "unevaluatedProperties": False}, {"type": "object"}, None),
        (
            {"type": "object", "unevaluatedProperties": False},
            {"type": "object", "unevaluatedProperties": False, "properties": {"a": {"type": "string"}}},
            None,
        ),
        (
            {"type": "object", "unevaluatedProperties": False, "properties": {"a": {"type": "string"}}},
            {"type": "object", "unevaluatedProperties": False},
            "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL",
        ),
        (
            {"type": "array", "prefixItems": [{"type": "string"}]},
            {"type": "array", "prefixItems": [{"type": "string"}], "unevaluatedItems": False},
            "ADDITIONAL_ITEMS_REMOVED",
        ),
        ({"type": "object"}, {"type": "object", "propertyNames": {"maxLength": 3}}, "PROPERTY_NAMES_CHANGED"),
        (
            {"type": "object", "propertyNames": {"maxLength": 3}},
            {"type": "object", "propertyNames": {"maxLength": 4}},
            None,
        ),
        (
            {"type": "object"},
            {"type": "object", "patternProperties": {"^a": {"type": "string"}}},
            "PATTERN_PROPERTY_ADDED",
        ),
        (
            {"type": "object", "patternProperties": {"^a": {"type": "string"}}},
            {"type": "object", "patternProperties": {"^a": {"type": ["string", "null"]}}},
            None,
        ),
        (
            {"type": "object", "additionalProperties": False, "patternProperties": {"^a": {}}},
            {"type": "object", "additionalProperties": False},
            "PATTERN_PROPERTY_REMOVED",
        ),
        ({"type": "array", "contains": {}}, {"type": "array", "contains": {}, "minContains": 2}, "MIN_CONTAINS_ADDED"),
    ],
)
def test_changes(old: dict[str, Any], new: dict[str, Any], difference: str | None) -> None:
    before, after = ({"$schema": DRAFT, **schema} for schema in (old, new))
    problems = parse(SchemaSource(JSON, json.dumps(after))).problems_reading(
        parse(SchemaSource(JSON, json.dumps(before)))
    )
    if difference is None:
        assert problems == []
    else:
        assert any(f'"{difference}"' in problem for problem in problems), problems
    if not problems:
        # The validator agrees: no document that the old schema allows is refused by the new one.
        for document in documents():
            assert not jsonschema_rs.is_valid(before, document) or jsonschema_rs.is_valid(after, document), document


def documents() -> list[Any]:
    values: list[Any] = ["card", 1, None]
    objects = [
        {name: value for name, value in zip(("kind", "number", "date", "a"), chosen, strict=True) if value != 1}
        for chosen in itertools.product(values, repeat=4)
    ]
    return [*objects, *([*values[:count]] for count in range(4)), "text", 7]
