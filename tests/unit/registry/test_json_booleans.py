"""JSON Schema: true is not 1, and 1 is 1.0."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.serdes.formats import SchemaSource, parse


def schema(text: str) -> Any:
    return parse(SchemaSource("JSON", text, ()))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('{"const":true}', '{"const":1}'),
        ('{"enum":[true,2]}', '{"enum":[1,2,3]}'),
        ('{"type":"object","properties":{"a":{"enum":[0]}}}', '{"type":"object","properties":{"a":{"enum":[false]}}}'),
    ],
)
def test_true_is_not_one(old: str, new: str) -> None:
    assert schema(new).problems_reading(schema(old))


def test_one_is_one_point_zero() -> None:
    assert not schema('{"enum":[1.0,2]}').problems_reading(schema('{"enum":[1]}'))
