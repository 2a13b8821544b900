"""Deeply nested values are an error for a serializer and a deserializer, and never end the process."""

from __future__ import annotations

import datetime
import decimal
import io
import json
from typing import Any

import pytest

from ottla.serdes import SerializationError, plain_serde
from ottla.serdes.avro import AvroDeserializer, AvroSerializer
from ottla.serdes.avro_limits import EMPTY_ITEMS_MAX, LEVELS_MAX, endless_record, value_limits
from ottla.serdes.json_schema import JsonSchemaDeserializer, JsonSchemaSerializer
from ottla.serdes.registry_client import RegisteredSchema, RegistryClient, SchemaText

fastavro = pytest.importorskip("fastavro")
pytest.importorskip("jsonschema_rs")

# More levels than Python's limit, and than the stack of a thread has room for.
LEVELS = 100_000
MOMENT = {"type": "long", "logicalType": "timestamp-millis"}
NODE = {
    "type": "record",
    "name": "Node",
    "fields": [{"name": "at", "type": MOMENT}, {"name": "next", "type": ["null", "Node"]}],
}
# Every node contains a node, so its values have no end and take no bytes.
ENDLESS = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": "Node"}]}


class OneSchema(RegistryClient):
    def __init__(self, schema: Any, schema_type: str = "AVRO") -> None:
        super().__init__("http://127.0.0.1:1")
        self._only_schema = SchemaText(json.dumps(schema), schema_type)

    def register(self, subject: str, schema: SchemaText, *, normalize: bool = False) -> RegisteredSchema:
        del schema, normalize
        return RegisteredSchema(subject, 1, 1, "", self._only_schema)

    def schema_by_id(self, schema_id: int, subject: str = "", *, form: str = "") -> SchemaText:
        del schema_id, subject, form
        return self._only_schema


def tagged(payload: bytes) -> bytes:
    return b"\0\0\0\0\1" + payload


def nested_list() -> list[Any]:
    value: list[Any] = []
    for _ in range(LEVELS):
        value = [value]
    return value


def test_plain_json() -> None:
    serde = plain_serde("json")
    with pytest.raises(SerializationError, match="the bytes are not JSON"):
        serde.deserializer.deserialize("t", b"[" * LEVELS + b"]" * LEVELS)
    with pytest.raises(SerializationError, match="it cannot be written as JSON"):
        serde.serializer.serialize("t", nested_list())


def test_json_with_a_schema() -> None:
    client = OneSchema(True, "JSON")
    with pytest.raises(SerializationError, match="the bytes are not JSON"):
        JsonSchemaDeserializer(client=client).deserialize("t", tagged(b"[" * LEVELS + b"]" * LEVELS))
    with pytest.raises(SerializationError, match="it cannot be written as JSON"):
        JsonSchemaSerializer(True, client=client, validate=False).serialize("t", nested_list())


def test_functions_of_the_application_that_recurse_too_deep() -> None:
    def deeper(value: Any) -> Any:
        return deeper(value)

    client = OneSchema("string")
    with pytest.raises(SerializationError, match="maximum recursion depth"):
        AvroDeserializer(client=client, to=deeper).deserialize("t", tagged(b"\2a"))
    with pytest.raises(SerializationError, match="maximum recursion depth"):
        AvroSerializer('"string"', client=client, to_dict=deeper).serialize("t", "a")


def test_avro_bytes_that_nest_records() -> None:
    level = b"\0\2"
    with pytest.raises(SerializationError, match="the bytes are not Avro"):
        AvroDeserializer(client=OneSchema(NODE)).deserialize("t", tagged(level * LEVELS + b"\0\0"))


def test_an_avro_record_that_contains_itself_in_every_value() -> None:
    client = OneSchema(ENDLESS)
    with pytest.raises(SerializationError, match="every Node contains another Node"):
        AvroDeserializer(client=client).deserialize("t", tagged(b""))
    with pytest.raises(SerializationError, match="every Node contains another Node"):
        AvroSerializer(ENDLESS, client=client).serialize("t", {"next": {}})


@pytest.mark.parametrize(("records", "is_read"), [(LEVELS_MAX // 2 - 2, True), (LEVELS_MAX // 2 - 1, False)])
def test_the_depth_of_avro_values_has_a_limit(records: int, is_read: bool) -> None:
    """Two levels for a node, which is a record with a union, and one for the null at the end."""
    deserializer = AvroDeserializer(client=OneSchema(NODE))
    data = tagged(b"\0\2" * records + b"\0\0")
    if is_read:
        value, nodes = deserializer.deserialize("t", data), 0
        while value is not None:
            value, nodes = value["next"], nodes + 1
        assert nodes == records + 1
        return
    with pytest.raises(SerializationError, match=f"more than {LEVELS_MAX} levels"):
        deserializer.deserialize("t", data)


EVERYTHING: dict[str, tuple[Any, Any]] = {
    "nothing": ("null", None),
    "truth": ("boolean", True),
    "int": ("int", -(2**31)),
    "long": ("long", -(2**63)),
    "float": ("float", 1.5),
    "double": ("double", -0.1),
    "text": ("string", "ä" * 100),
    "bytes": ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}, decimal.Decimal("1.23")),
    "fixed": ({"type": "fixed", "name": "Fixed", "size": 3}, b"abc"),
    "suit": ({"type": "enum", "name": "Suit", "symbols": ["A", "B"]}, "B"),
    "moment": (MOMENT, datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)),
    "numbers": ({"type": "array", "items": ["null", "int"]}, [1, None] * 50),
    "counts": ({"type": "map", "values": {"type": "array", "items": "long"}}, {"a": [1], "": [2**62], "c": []}),
}


def test_avro_values_of_all_types_are_read() -> None:
    fields = [{"name": name, "type": kind} for name, (kind, _) in EVERYTHING.items()]
    links = [{"name": "left", "type": ["null", "All"]}, {"name": "more", "type": {"type": "array", "items": "All"}}]
    schema = {"type": "record", "name": "All", "fields": [*fields, *links]}
    leaf: dict[str, Any] = {name: content for name, (_, content) in EVERYTHING.items()} | {"left": None, "more": []}
    tree = leaf | {"left": leaf, "more": [leaf, leaf | {"left": leaf}]}
    client = OneSchema(schema)
    data = AvroSerializer(schema, client=client).serialize("t", tree)
    assert data is not None
    assert AvroDeserializer(client=client).deserialize("t", data) == tree
    # The last byte is the end of the outer array, so every shorter value is cut off.
    for length in range(len(data) - 300, len(data), 7):
        with pytest.raises(SerializationError, match="the bytes are not Avro"):
            AvroDeserializer(client=client).deserialize("t", data[:length])


@pytest.mark.parametrize(
    "start", [b"\xff" * 10 + b"\x01", b"\0\x01", b"\0\x04"], ids=["long number", "negative branch", "unknown branch"]
)
def test_damaged_avro_values_of_recursive_types(start: bytes) -> None:
    with pytest.raises(SerializationError, match="the bytes are not Avro"):
        AvroDeserializer(client=OneSchema(NODE)).deserialize("t", tagged(start + b"\0\2" * 1_000 + b"\0\0"))


def test_blocks_of_avro_with_their_length() -> None:
    """Java writes such blocks with a negative count, and the length in bytes."""
    tree = {"type": "record", "name": "Tree", "fields": [{"name": "trees", "type": {"type": "array", "items": "Tree"}}]}
    # A block of 600 empty trees, twice.
    blocks = (b"\xaf\x09" + b"\xb0\x09" + b"\0" * 600) * 2
    value = AvroDeserializer(client=OneSchema(tree)).deserialize("t", tagged(blocks + b"\0"))
    assert value == {"trees": [{"trees": []}] * 1_200}


def record(name: str, *types: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": f"f{number}", "type": type_} for number, type_ in enumerate(types)],
    }


@pytest.mark.parametrize(
    ("schema", "is_deep", "endless"),
    [
        ("string", False, None),
        (record("A", record("B", "int"), "B", {"type": "array", "items": "B"}), False, None),
        (record("A", ["null", "A"]), True, None),
        (record("A", {"type": "array", "items": "A"}), True, None),
        (record("A", {"type": "map", "values": ["null", "A"]}), True, None),
        (record("A", ["null", record("B", ["null", "A"])]), True, None),
        (["null", record("A", "int", record("B", "A"))], True, "A"),
        (record("A", ["null", record("B", "B")]), True, "B"),
    ],
)
def test_which_types_contain_themselves(schema: Any, is_deep: bool, endless: str | None) -> None:
    parsed = fastavro.parse_schema(schema)
    assert (value_limits(parsed) is not None, endless_record(parsed)) == (is_deep, endless)


def test_a_schema_with_many_uses_of_its_types_is_searched_once() -> None:
    types = record("R0", "int")
    for number in range(1, 40):
        types = record(f"R{number}", types, f"R{number - 1}", f"R{number - 1}")
    assert value_limits(fastavro.parse_schema(types)) is None


NOTHING = record("Nothing")


def block(count: int) -> bytes:
    """The count of a block of items that take no bytes. A negative one is followed by the length of the block."""
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, "long", count)
    return buffer.getvalue() + (b"\0" if count < 0 else b"")


@pytest.mark.parametrize("count", [EMPTY_ITEMS_MAX + 1, 2**60, -(2**60)])
@pytest.mark.parametrize(
    "items",
    ["null", {"type": "fixed", "name": "None", "size": 0}, NOTHING, record("Two", "null", NOTHING)],
    ids=["null", "fixed", "record", "nested records"],
)
def test_arrays_of_items_without_bytes_have_a_limit(items: Any, count: int) -> None:
    """A reader would run out of memory before it has an error."""
    schemas = [
        {"type": "array", "items": items},
        record("A", ["null", {"type": "map", "values": {"type": "array", "items": items}}]),
        # A type that contains itself.
        record("Tree", {"type": "array", "items": items}, {"type": "array", "items": "Tree"}),
    ]
    for schema, start, end in zip(schemas, (b"", b"\2\2\0", b""), (b"\0", b"\0\0", b"\0\0"), strict=True):
        data = tagged(start + block(count) + end)
        with pytest.raises(SerializationError, match="items that take no bytes"):
            AvroDeserializer(client=OneSchema(schema)).deserialize("t", data)


def test_the_blocks_of_an_array_are_counted_together() -> None:
    deserializer = AvroDeserializer(client=OneSchema({"type": "array", "items": "null"}))
    half = block(EMPTY_ITEMS_MAX // 2)
    assert deserializer.deserialize("t", tagged(half * 2 + b"\0")) == [None] * EMPTY_ITEMS_MAX
    with pytest.raises(SerializationError, match="items that take no bytes"):
        deserializer.deserialize("t", tagged(half * 2 + block(1) + b"\0"))


def test_arrays_of_items_with_bytes_end_with_the_value() -> None:
    for items in ("boolean", ["null"], record("A", "null", "int"), {"type": "map", "values": "null"}):
        schema = {"type": "array", "items": items}
        assert value_limits(fastavro.parse_schema(schema)) is None
        with pytest.raises(SerializationError, match="the bytes are not Avro"):
            AvroDeserializer(client=OneSchema(schema)).deserialize("t", tagged(block(2**60)))
