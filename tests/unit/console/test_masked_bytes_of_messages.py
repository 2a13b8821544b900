"""Masks reach the bytes fields of Protobuf and Avro: base64 and hexadecimal digits would show what they hide."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from google.protobuf import descriptor_pool, message_factory, struct_pb2
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto, FileOptions, UninterpretedOption

from ottla.client.consumer import ConsumedRecord
from ottla.console.fields import FieldReader
from ottla.console.masking import MASK, Masker, parse_mask_rules

CARD = b"4711-4711"


def seen(value: Any, *rules: dict[str, str], schema_type: str = "PROTOBUF") -> dict[str, Any]:
    """A record with a schema, as a role with these rules sees it."""
    reader = FieldReader("orders", "auto", Masker(parse_mask_rules(list(rules)), "orders"), "http://registry")
    reader._client = SimpleNamespace(schema_by_id=lambda _: SimpleNamespace(schema_type=schema_type))
    reader._deserializers[schema_type, False] = SimpleNamespace(deserialize=lambda *_: value)
    record = ConsumedRecord("orders", 0, 0, 0, 0, None, b"\0\0\0\0\1", [], 0)
    return asyncio.run(reader.message(record))


def shown(value: Any, *rules: dict[str, str], schema_type: str = "PROTOBUF") -> Any:
    return seen(value, *rules, schema_type=schema_type)["value"]["value"]


def options(content: bytes) -> FileOptions:
    return FileOptions(java_package="shop", uninterpreted_option=[UninterpretedOption(string_value=content)])


def test_an_expression_finds_the_text_of_bytes() -> None:
    rule = {"topics": ".*", "regex": "[0-9]{4}-[0-9]{4}"}
    wanted = {"java_package": "shop", "uninterpreted_option": [{"string_value": f"card {MASK}"}]}
    assert shown(options(b"card " + CARD), rule) == wanted
    assert shown({"card": CARD}, rule, schema_type="AVRO") == {"card": MASK}


@pytest.mark.parametrize("content", [CARD + b"\xff", b"\0" + CARD.decode().encode("utf-16")])
def test_bytes_that_are_no_text_are_hidden(content: bytes) -> None:
    rule = {"topics": ".*", "regex": "[0-9]{4}-[0-9]{4}"}
    assert shown(options(content), rule)["uninterpreted_option"] == [{"string_value": MASK}]
    assert shown({"card": content}, rule, schema_type="AVRO") == {"card": MASK}


@pytest.mark.parametrize(("content", "is_masked"), [(b"\xff", True), (CARD, True), (b"readable", False)])
def test_a_record_with_hidden_bytes_is_marked(content: bytes, is_masked: bool) -> None:
    """The pages do not offer to write a marked record again: the mask would replace the bytes."""
    rule = {"topics": ".*", "regex": "[0-9]{4}-[0-9]{4}"}
    assert seen(options(content), rule)["masked"] == is_masked
    assert seen({"rows": [{"card": content}]}, rule, schema_type="AVRO")["masked"] == is_masked
    assert not seen(options(content))["masked"]


def test_a_path_goes_on_in_bytes_that_are_json() -> None:
    rule = {"topics": ".*", "path": "uninterpreted_option.string_value.card"}
    content = json.dumps({"card": 4711, "name": "Ada"}).encode()
    text = shown(options(content), rule)["uninterpreted_option"][0]["string_value"]
    assert json.loads(text) == {"card": MASK, "name": "Ada"}


def test_other_roles_see_protobufs_own_json() -> None:
    assert shown(options(CARD))["uninterpreted_option"] == [{"string_value": "NDcxMS00NzEx"}]


def order_class() -> Any:
    """A message with a field `items`, which is also the name of a method of maps, a map and a free object."""
    file = FileDescriptorProto(name="order.proto", package="shop", syntax="proto3")
    file.dependency.append(struct_pb2.DESCRIPTOR.name)
    order = file.message_type.add(name="Order")
    entry = order.nested_type.add(name="NotesEntry")
    entry.options.map_entry = True
    kinds, optional, repeated = FieldDescriptorProto, FieldDescriptorProto.LABEL_OPTIONAL, 3
    entry.field.add(name="key", number=1, label=optional, type=kinds.TYPE_STRING)
    entry.field.add(name="value", number=2, label=optional, type=kinds.TYPE_BYTES)
    order.field.add(name="items", number=1, label=repeated, type=kinds.TYPE_BYTES)
    order.field.add(name="notes", number=2, label=repeated, type=kinds.TYPE_MESSAGE, type_name=".shop.Order.NotesEntry")
    order.field.add(name="more", number=3, label=optional, type=kinds.TYPE_MESSAGE, type_name=".google.protobuf.Struct")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def test_a_field_may_be_called_items() -> None:
    order = order_class()(items=[CARD, b"\xff"], notes={"card": CARD})
    order.more.update({"card": CARD.decode(), "rows": [{"number": 1}]})
    assert shown(order, {"topics": ".*", "regex": "[0-9]{4}-[0-9]{4}"}) == {
        "items": [MASK, MASK],
        "notes": {"card": MASK},
        "more": {"card": MASK, "rows": [{"number": 1.0}]},
    }
