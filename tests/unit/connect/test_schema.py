"""Connect's schemas in JSON, and which of them can be one column."""

from __future__ import annotations

import pytest

from ottla.connect.api.schema import (
    DECIMAL,
    PRECISION,
    Field,
    Schema,
    SchemaError,
    merge,
    scaled_as,
    schema_from_json,
    schema_to_json,
)


def test_a_schema_is_written_as_it_was_read() -> None:
    data = {
        "type": "struct",
        "fields": [
            {"type": "int32", "optional": False, "field": "id"},
            {"type": "array", "items": {"type": "string", "optional": True}, "optional": True, "field": "tags"},
            {
                "type": "map",
                "keys": {"type": "string", "optional": False},
                "values": {"type": "double", "optional": False},
                "optional": False,
                "field": "m",
            },
            {
                "type": "bytes",
                "optional": True,
                "name": "org.apache.kafka.connect.data.Decimal",
                "version": 1,
                "parameters": {"scale": "2"},
                "default": "AA==",
                "field": "price",
            },
        ],
        "optional": False,
        "name": "shop.Order",
        "version": 3,
        "doc": "what was bought",
    }
    assert schema_to_json(schema_from_json(data)) == data


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        ({}, "'type'"),
        ("int32", "'type'"),
        ({"type": "int128"}, "int128"),
        ({"type": "array"}, "items"),
        ({"type": "map", "keys": {"type": "string"}}, "values"),
        ({"type": "struct"}, "fields"),
        ({"type": "struct", "fields": [{"type": "int32"}]}, "name"),
        ({"type": "string", "parameters": {"a": 1}}, "parameters"),
    ],
)
def test_what_is_no_schema_is_refused(data: object, complaint: str) -> None:
    with pytest.raises(SchemaError, match=complaint):
        schema_from_json(data)


def test_two_schemas_become_one_that_holds_both() -> None:
    left = Schema(type="struct", fields=(Field("id", Schema(type="int32")), Field("old", Schema(type="string"))))
    right = Schema(type="struct", fields=(Field("id", Schema(type="int64")), Field("new", Schema(type="boolean"))))
    both = merge(left, right)
    assert [field.name for field in both.fields] == ["id", "old", "new"]
    assert both.field("id") == Schema(type="int64")
    assert both.field("old") == Schema(type="string", optional=True)
    assert both.field("new") == Schema(type="boolean", optional=True)


def test_an_integer_beside_a_float_needs_a_double() -> None:
    assert merge(Schema(type="int64"), Schema(type="float")).type == "double"


def test_text_and_numbers_are_not_one_column() -> None:
    with pytest.raises(SchemaError):
        merge(Schema(type="string"), Schema(type="int32"))


def decimal(scale: int, **parameters: str) -> Schema:
    return Schema(type="bytes", name=DECIMAL, version=1, parameters={"scale": str(scale), **parameters})


def test_decimals_of_two_scales_become_one_that_loses_no_digit() -> None:
    assert merge(decimal(2), decimal(4)).parameters == {"scale": "4"}
    assert merge(decimal(4), decimal(2)).parameters == {"scale": "4"}
    precise = merge(decimal(2, **{PRECISION: "10"}), decimal(4, **{PRECISION: "9"}))
    assert precise.parameters == {"scale": "4", PRECISION: "12"}


def test_what_a_message_wrote_is_read_by_its_own_scale() -> None:
    def of(price: Schema) -> Schema:
        return Schema(type="struct", fields=(Field("price", price), Field("id", Schema(type="int32"))))

    together = merge(of(decimal(2)), of(decimal(4)))
    assert scaled_as(together, of(decimal(4))) == together
    assert scaled_as(together, of(decimal(2))) == of(decimal(2))
