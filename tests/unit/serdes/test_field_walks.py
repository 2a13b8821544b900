"""The way from a value to its fields, where the schema has branches or is used for many values."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from ottla.serdes import protobuf
from ottla.serdes.json_schema import JsonSchemaDeserializer
from ottla.serdes.registry_client import RegistryClient, SchemaText
from ottla.serdes.rules.contracts import Field
from ottla.serdes.wire_format import SchemaTag

pytest.importorskip("jsonschema_rs")
descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")

ADDRESS = "https://example.com/person.json"
PERSON = {
    "type": "object",
    "properties": {"name": {"$ref": "#/definitions/name"}, "ssn": {"type": "string", "confluent:tags": ["PII"]}},
    "required": ["name"],
}
COMPANY = {"type": "object", "properties": {"vat": {"type": "string", "confluent:tags": ["TAX"]}}, "required": ["vat"]}
NAME = {"type": "string", "minLength": 1}
ADA = {"name": "Ada", "ssn": "123"}
TAG = SchemaTag(id=1)


class References(RegistryClient):
    """A registry whose schemas refer to one document."""

    def __init__(self, document: Any = None) -> None:
        super().__init__("http://127.0.0.1:1")
        self._document = SchemaText(json.dumps(document), "JSON")

    def version(self, subject: str, version: int, *, form: str = "") -> SchemaText:
        del subject, version, form
        return self._document


def tagged_fields(schema: Any, value: Any, document: Any = None) -> dict[str, list[str]]:
    references = (("common.json", "common", 1),) if document is not None else ()
    deserializer = JsonSchemaDeserializer(client=References(document))
    walk = deserializer._walk(SchemaText(json.dumps(schema), "JSON", references), value, TAG)
    tags: dict[str, list[str]] = {}

    def note(field: Field, content: Any) -> Any:
        tags[field.full_name] = sorted(field.tags)
        return content

    assert walk(value, note) == value
    return tags


@pytest.mark.parametrize(
    "person",
    [
        {"$ref": "#/definitions/person"},
        PERSON,
        PERSON | {"properties": PERSON["properties"] | {"name": {"$ref": f"{ADDRESS}#/definitions/name"}}},
    ],
    ids=["reference", "reference within", "own address"],
)
@pytest.mark.parametrize(
    "head",
    [
        {"$id": ADDRESS},
        {"$id": ADDRESS, "$schema": "http://json-schema.org/draft-07/schema#"},
        {"$id": f"{ADDRESS}#", "$schema": "https://json-schema.org/draft/2020-12/schema"},
    ],
    ids=["no dialect", "draft 7", "draft 2020-12"],
)
@pytest.mark.parametrize("word", ["oneOf", "anyOf"])
def test_branches_of_json_refer_to_their_document(person: Any, head: dict[str, str], word: str) -> None:
    definitions = {"person": PERSON, "name": NAME}
    schema = head | {"definitions": definitions, word: [{"type": "null"}, COMPANY, person]}
    assert tagged_fields(schema, ADA) == {"$.name": [], "$.ssn": ["PII"]}
    assert tagged_fields(schema, {"vat": "1"}) == {"$.vat": ["TAX"]}
    assert tagged_fields(schema, ADA | {"name": ""}) == {}


@pytest.mark.parametrize(
    "head",
    [
        {},
        {"$id": "person.json"},
        {"$id": "urn:example:person"},
        {"id": ADDRESS, "$schema": "http://json-schema.org/draft-04/schema#"},
        {"$id": "#person", "$schema": "http://json-schema.org/draft-07/schema#"},
        {"$id": f"{ADDRESS}#person", "$schema": "http://json-schema.org/draft-07/schema#"},
    ],
    ids=["none", "a file", "a name", "draft 4", "a fragment", "an address with a fragment"],
)
def test_addresses_of_documents_with_branches(head: dict[str, str]) -> None:
    schema = head | {"definitions": {"name": NAME}, "oneOf": [COMPANY, PERSON]}
    assert tagged_fields(schema, ADA) == {"$.name": [], "$.ssn": ["PII"]}


@pytest.mark.parametrize(
    ("identity", "reference"),
    [
        ({"$anchor": "person"}, "#person"),
        ({"$anchor": "person"}, f"{ADDRESS}#person"),
        ({"$id": "#person"}, "#person"),
        ({"$id": "inner.json"}, "inner.json"),
    ],
)
@pytest.mark.parametrize("branch", [lambda part: part, lambda part: {"allOf": [part]}], ids=["branch", "in a branch"])
def test_parts_of_json_with_names_of_their_own(identity: Any, reference: str, branch: Any) -> None:
    """A field that the walk misses would be written without its rules, such as an encryption."""
    person = {"properties": {"ssn": PERSON["properties"]["ssn"]}, "required": ["name"]}
    head = {"$id": ADDRESS, "definitions": {"person": person | identity}}
    if identity.get("$id") == "#person":
        head["$schema"] = "http://json-schema.org/draft-07/schema#"
    schema = head | {"oneOf": [COMPANY, branch({"$ref": reference})]}
    assert tagged_fields(schema, ADA) == {"$.ssn": ["PII"]}
    assert tagged_fields(head | {"properties": {"owner": {"$ref": reference}}}, {"owner": ADA}) == {
        "$.owner.ssn": ["PII"]
    }


def test_branches_of_json_in_another_document() -> None:
    common = {"$id": "https://example.com/common.json", "definitions": {"person": PERSON, "name": NAME}}
    for address in ("common.json", "https://example.com/common.json"):
        schema = {"oneOf": [COMPANY, {"$ref": f"{address}#/definitions/person"}]}
        assert tagged_fields(schema, ADA, common) == {"$.name": [], "$.ssn": ["PII"]}


def test_branches_of_json_that_are_no_schemas() -> None:
    assert tagged_fields({"oneOf": [False, True, PERSON]}, ADA) == {}
    for branch in ({"type": 3}, {"properties": {"name": {"$ref": "unknown.json"}}}):
        with pytest.raises(ValueError, match="its JSON Schema is not valid"):
            tagged_fields({"oneOf": [branch]}, ADA)


SECRET: dict[str, Any] = {"properties": {"ssn": PERSON["properties"]["ssn"]}}


@pytest.mark.parametrize(
    "reference",
    [
        "#/definitions/unknown",
        "#unknown",
        "#/oneOf/7",
        "#/oneOf/x",
        "#/title/x",
        "unknown.json",
        "https://example.com/unknown.json#/a",
        "#/definitions/loop",
    ],
)
@pytest.mark.parametrize(
    "placed", [lambda part: {"ssn": part}, lambda part: {"ssns": {"items": part}}], ids=["property", "items"]
)
def test_references_of_json_that_lead_nowhere(reference: str, placed: Any) -> None:
    """As in Confluent's clients: the field behind one would be written without its rules, such as an encryption."""
    definitions = {"loop": {"$ref": "#/definitions/loop"}}
    schema = {"title": "T", "definitions": definitions, "properties": placed({"$ref": reference})}
    assert tagged_fields(schema, {"name": "Ada"}) == {}
    with pytest.raises(ValueError, match=f"its JSON Schema is not valid: the reference {reference} leads"):
        tagged_fields(schema, {"ssn": "123", "ssns": ["123"]})


@pytest.mark.parametrize(
    ("schema", "reference"),
    [
        ({"anyOf": [True, SECRET]}, "#/anyOf/1"),
        ({"$id": ADDRESS, "definitions": {"a": SECRET | {"$id": "ssn.json"}}}, "https://example.com/ssn.json"),
        ({"$id": ADDRESS, "definitions": {"a": SECRET | {"$id": "https://example.com/ssn.json"}}}, "ssn.json"),
        ({"id": ADDRESS, "definitions": {"a": SECRET}}, f"{ADDRESS}#/definitions/a"),
        ({"$id": ADDRESS, "definitions": {"a": SECRET}}, "person.json#/definitions/a"),
    ],
)
def test_references_of_json_that_lead_to_a_part(schema: dict[str, Any], reference: str) -> None:
    schema = schema | {"properties": {"owner": {"$ref": reference}}}
    assert tagged_fields(schema, {"owner": ADA}) == {"$.owner.ssn": ["PII"]}


def test_a_reference_of_json_to_the_schema_of_json_schema() -> None:
    schema = {"properties": {"schema": {"$ref": "http://json-schema.org/draft-07/schema#"}}}
    assert tagged_fields(schema, {"schema": {"type": "string"}}) == {}


def test_a_schema_of_json_is_parsed_for_the_first_value() -> None:
    deserializer, schema = JsonSchemaDeserializer(client=References()), SchemaText(json.dumps(PERSON), "JSON")
    assert deserializer._walk(schema, ADA, TAG) is deserializer._walk(schema, ADA, TAG)


def test_a_schema_of_protobuf_is_parsed_for_the_first_value(monkeypatch: pytest.MonkeyPatch) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="p.proto", package="p")
    file.message_type.add(name="Person")
    schema = SchemaText(base64.b64encode(file.SerializeToString()).decode(), "PROTOBUF")
    built: list[SchemaText] = []
    message_class = protobuf.message_class

    def counted(client: RegistryClient, schema: SchemaText, indexes: Any) -> type:
        built.append(schema)
        return message_class(client, schema, indexes)

    value: Any = message_class(References(), schema, [0])()
    monkeypatch.setattr(protobuf, "message_class", counted)
    deserializer = protobuf.ProtobufDeserializer(client=References())
    for _ in range(3):
        deserializer._walk(schema, value, TAG)
    assert built == [schema]
