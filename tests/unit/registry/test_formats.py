"""Canonical texts, and which changes of JSON Schemas and Protobuf files are compatible."""

from __future__ import annotations

import base64
import json

import pytest
from google.protobuf import descriptor_pb2

from ottla.serdes.formats import AVRO, FIELD, JSON, PROTOBUF, RECORD, Entity, InvalidSchema, SchemaSource, parse


def canonical(kind: str, text: str) -> str:
    return parse(SchemaSource(kind, text)).canonical


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ('{"type": "string"}', '"string"'),
        ('{"type": {"type": "int"}}', '"int"'),
        (' [ "null", "int" ] ', '["null","int"]'),
        ('{"logicalType":"date", "type":"int"}', '{"type":"int","logicalType":"date"}'),
        (
            '{"fields":[{"type":{"type":"string"},"name":"a","doc":"d"}],"namespace":"n","name":"R","type":"record"}',
            '{"type":"record","name":"R","namespace":"n","fields":[{"name":"a","type":"string","doc":"d"}]}',
        ),
        (
            '{"type":"record","name":"a.b.R","aliases":["Q"],"fields":[{"name":"x","type":{"type":"enum","name":"E",'
            '"symbols":["A"]}},{"name":"y","type":"a.b.E","default":"A"},{"name":"z","type":["null","R"]}]}',
            '{"type":"record","name":"R","namespace":"a.b","fields":[{"name":"x","type":{"type":"enum","name":"E",'
            '"symbols":["A"]}},{"name":"y","type":"E","default":"A"},{"name":"z","type":["null","R"]}],'
            '"aliases":["Q"]}',
        ),
    ],
)
def test_avro_is_printed_as_by_java(text: str, printed: str) -> None:
    assert canonical(AVRO, text) == printed
    assert canonical(AVRO, printed) == printed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "string",
        "3",
        '{"type":"recrd"}',
        '{"type":"record","name":"R"}',
        '["int","int"]',
        '["null",["int"]]',
        '{"type":"record","name":"1","fields":[]}',
        '{"type":"enum","name":"E","symbols":["A","A"]}',
        '{"type":"record","name":"R","fields":[{"name":"a","type":"Unknown"}]}',
        '{"type":"fixed","name":"F"}',
        '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"a","type":"int"}]}',
        "[" * 10000,
    ],
)
def test_what_is_no_avro_schema_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchema):
        parse(SchemaSource(AVRO, text))


@pytest.mark.parametrize(
    ("type_", "default", "is_right"),
    [
        ('["null","string"]', "null", True),
        ('["null","string"]', '"null"', False),
        ('["string","null"]', '"x"', True),
        ('"int"', "2147483648", False),
        ('"long"', "2147483648", True),
        ('"int"', "1.5", False),
        ('"int"', "true", False),
        ('"double"', "1", True),
        ('{"type":"array","items":"int"}', "[]", True),
        ('{"type":"array","items":"int"}', '["x"]', False),
        ('{"type":"map","values":"int"}', "[]", False),
        ('{"type":"enum","name":"E","symbols":["A"]}', '"B"', False),
        ('{"type":"record","name":"I","fields":[{"name":"x","type":"int"}]}', "{}", False),
    ],
)
def test_defaults_fit_their_types(type_: str, default: str, is_right: bool) -> None:
    text = f'{{"type":"record","name":"R","fields":[{{"name":"a","type":{type_},"default":{default}}}]}}'
    schema = parse(SchemaSource(AVRO, text))
    if is_right:
        schema.check_new()
    else:
        with pytest.raises(InvalidSchema, match="default of the field a of R is wrong"):
            schema.check_new()


def obj(extra: object = None, required: list[str] | None = None, **properties: object) -> dict[str, object]:
    schema: dict[str, object] = {"type": "object", "properties": properties}
    if extra is not None:
        schema["additionalProperties"] = extra
    return schema | ({"required": required} if required else {})


STRING, NUMBER, INTEGER = {"type": "string"}, {"type": "number"}, {"type": "integer"}


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        (STRING, STRING, None),
        (STRING, NUMBER, "TYPE_CHANGED"),
        (INTEGER, NUMBER, None),
        (NUMBER, INTEGER, "TYPE_NARROWED"),
        (STRING, {"type": ["string", "null"]}, None),
        ({"type": ["string", "null"]}, STRING, "TYPE_NARROWED"),
        (STRING, {"type": "string", "maxLength": 3}, "MAX_LENGTH_ADDED"),
        ({"type": "string", "maxLength": 3}, {"type": "string", "maxLength": 5}, None),
        ({"type": "string", "maxLength": 3}, {"type": "string", "maxLength": 2}, "MAX_LENGTH_DECREASED"),
        ({"type": "number", "minimum": 3}, {"type": "number", "minimum": 4}, "MINIMUM_INCREASED"),
        ({"type": "number", "minimum": 3}, NUMBER, None),
        (STRING, {"type": "string", "pattern": "a"}, "PATTERN_ADDED"),
        ({"enum": ["a", "b"]}, {"enum": ["a"]}, "ENUM_ARRAY_NARROWED"),
        ({"enum": ["a"]}, {"enum": ["a", "b"]}, None),
        (obj(a=STRING), obj(a=STRING, b=NUMBER), "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"),
        (obj(a=STRING), obj(a=STRING, b=True), None),
        (obj(extra=False, a=STRING), obj(extra=False, a=STRING, b=NUMBER), None),
        (obj(extra=False, a=STRING, b=NUMBER), obj(extra=False, a=STRING), "PROPERTY_REMOVED_FROM_CLOSED"),
        (obj(a=STRING, b=NUMBER), obj(a=STRING), None),
        (obj(extra=STRING, a=STRING), obj(extra=STRING, a=STRING, b=NUMBER), "PROPERTY_ADDED_NOT_COVERED"),
        (obj(extra=STRING, a=STRING), obj(extra=STRING, a=STRING, b=STRING), None),
        (obj(a=STRING), obj(extra=False, a=STRING), "ADDITIONAL_PROPERTIES_REMOVED"),
        (obj(a=STRING), obj(required=["a"], a=STRING), "REQUIRED_ATTRIBUTE_ADDED"),
        (obj(required=["a"], a=STRING), obj(a=STRING), None),
        ({"type": "array", "items": STRING}, {"type": "array", "items": NUMBER}, "TYPE_CHANGED"),
        ({"type": "array"}, {"type": "array", "uniqueItems": True}, "UNIQUE_ITEMS_ADDED"),
        ({"oneOf": [STRING]}, {"oneOf": [STRING, NUMBER]}, None),
        ({"oneOf": [STRING, NUMBER]}, {"oneOf": [STRING]}, "SUM_TYPE_NARROWED"),
        (STRING, {"anyOf": [STRING, NUMBER]}, None),
        ({"allOf": [STRING]}, {"allOf": [STRING, {"type": "string", "maxLength": 2}]}, "PRODUCT_TYPE_EXTENDED"),
        ({"allOf": [STRING, {"maxLength": 2}]}, {"allOf": [STRING]}, None),
        (STRING, {"not": STRING, "type": "string"}, "NOT_TYPE_ADDED"),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": STRING}},
            {"$ref": "#/$defs/b", "$defs": {"b": NUMBER}},
            "TYPE_CHANGED",
        ),
        (STRING, True, None),
    ],
)
def test_changes_of_json_schemas(old: object, new: object, difference: str | None) -> None:
    problems = parse(SchemaSource(JSON, json.dumps(new))).problems_reading(parse(SchemaSource(JSON, json.dumps(old))))
    if difference is None:
        assert problems == []
    else:
        assert any(difference in problem for problem in problems), problems


def test_a_recursive_json_schema_is_compared() -> None:
    tree = {"type": "object", "properties": {"next": {"$ref": "#"}, "value": INTEGER}}
    wider = {"type": "object", "properties": {"next": {"$ref": "#"}, "value": NUMBER}}
    old, new = (parse(SchemaSource(JSON, json.dumps(schema))) for schema in (tree, wider))
    assert new.problems_reading(old) == []
    assert old.problems_reading(new) != []


def test_what_is_no_json_schema_is_refused() -> None:
    for text in ("[]", '{"type": "strin"}', '{"$ref": "#/nowhere"}', "{"):
        with pytest.raises(InvalidSchema):
            parse(SchemaSource(JSON, text)).check_new()


@pytest.mark.parametrize("draft", [None, "https://example.com/own", "http://json-schema.org/draft-07/schema#"])
def test_a_json_schema_without_a_known_draft_follows_draft_7(draft: str | None) -> None:
    """In later drafts `items` is not a list."""
    tuples = {"type": "array", "items": [INTEGER, NUMBER]} | ({} if draft is None else {"$schema": draft})
    parse(SchemaSource(JSON, json.dumps(tuples))).check_new()
    later = parse(SchemaSource(JSON, json.dumps({**tuples, "$schema": "https://json-schema.org/draft/2020-12/schema"})))
    with pytest.raises(InvalidSchema):
        later.check_new()


def proto(body: str, head: str = "package p;") -> SchemaSource:
    return SchemaSource(PROTOBUF, f'syntax = "proto3"; {head} {body}')


M = "message M { %s }"


@pytest.mark.parametrize(
    ("old", "new", "difference"),
    [
        (M % "string a = 1;", M % "string b = 1;", None),
        (M % "string a = 1;", M % "bytes a = 1;", None),
        (M % "string a = 1;", M % "", None),
        (M % "", M % "int32 a = 1;", None),
        (M % "int32 a = 1;", M % "uint64 a = 1;", None),
        (M % "int32 a = 1;", M % "sint32 a = 1;", "FIELD_SCALAR_KIND_CHANGED"),
        (M % "int32 a = 1;", M % "string a = 1;", "FIELD_SCALAR_KIND_CHANGED"),
        (M % "int32 a = 1;", M % "repeated int32 a = 1;", "FIELD_NUMERIC_LABEL_CHANGED"),
        (M % "string a = 1;", M % "repeated string a = 1;", None),
        (M % "int32 a = 1;", M % "M a = 1;", "FIELD_KIND_CHANGED"),
        (M % "N a = 1; message N {}", M % "O a = 1; message N {} message O {}", "FIELD_NAMED_TYPE_CHANGED"),
        (M % "message N {}", M % "", "MESSAGE_REMOVED"),
        (M % "", (M % "") + "message N {}", None),
        (M % "oneof x { int32 a = 1; int32 b = 2; }", M % "oneof x { int32 a = 1; }", "ONEOF_FIELD_REMOVED"),
        (M % "oneof x { int32 a = 1; }", M % "oneof x { int32 a = 1; int32 b = 2; }", None),
        (M % "int32 a = 1;", M % "oneof x { int32 a = 1; }", None),
        (M % "int32 a = 1; int32 b = 2;", M % "oneof x { int32 a = 1; int32 b = 2; }", "MULTIPLE_FIELDS_MOVED"),
        (M % "map<string, int32> a = 1;", M % "map<string, string> a = 1;", "FIELD_SCALAR_KIND_CHANGED"),
        (M % "enum E { A = 0; B = 1; }", M % "enum E { A = 0; }", None),
    ],
)
def test_changes_of_protobuf_files(old: str, new: str, difference: str | None) -> None:
    problems = parse(proto(new)).problems_reading(parse(proto(old)))
    if difference is None:
        assert problems == []
    else:
        assert any(difference in problem for problem in problems), problems


def test_a_changed_package_is_incompatible() -> None:
    old, new = parse(proto(M % "")), parse(proto(M % "", "package q;"))
    assert any("PACKAGE_CHANGED" in problem for problem in new.problems_reading(old))


def test_protobuf_text_and_its_compiled_form_are_one_schema() -> None:
    text = """
    syntax = "proto2"; package a.b; import public "google/protobuf/any.proto"; option java_package = "x\\"y";
    message Foo { // a comment
      reserved 3, 5 to 9, 1000 to max; reserved "x"; extensions 100 to 199;
      required string a = 1 [json_name = "aa", deprecated = true, default = "q"];
      optional group Bar = 2 { optional int32 z = 1; } repeated Kind k = 4 [packed = true];
      map<int32, Foo> some_map = 10; oneof o { bytes c = 11; google.protobuf.Any d = 12; }
      enum Kind { option allow_alias = true; A = 0; B = 0; C = -1; }
    }
    extend Foo { optional int32 more = 100; }
    service S { rpc Do (Foo) returns (stream Foo) { option deprecated = true; } }
    """
    schema = parse(SchemaSource(PROTOBUF, text))
    schema.check_new()
    again = parse(SchemaSource(PROTOBUF, schema.canonical))
    assert again.canonical == schema.canonical
    compiled = parse(SchemaSource(PROTOBUF, schema.formatted("serialized")))
    assert compiled.normalized == schema.normalized == again.normalized
    assert parse(SchemaSource(PROTOBUF, compiled.canonical)).formatted("serialized") == schema.formatted("serialized")


def test_a_reference_may_import_types_of_google() -> None:
    """All registries know the files of `google/type/` without their being registered."""
    place = (
        'syntax = "proto3"; package a; import "google/type/latlng.proto"; message Place { google.type.LatLng at = 1; }'
    )
    text = 'syntax = "proto3"; import "place.proto"; message M { a.Place place = 1; }'
    parse(SchemaSource(PROTOBUF, place)).check_new()
    parse(SchemaSource(PROTOBUF, text, (("place.proto", place),))).check_new()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("message M { string a 1; }", "Line 1, column"),
        ("message M { Unknown a = 1; }", "Unknown"),
        ('import "missing.proto"; message M {}', "missing.proto is not among the references"),
        ("message M { int32 a = 1; int32 b = 1; }", "duplicate"),
        ('syntax = "proto9"; message M {}', "proto9"),
    ],
)
def test_what_is_no_protobuf_file_is_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidSchema, match=reason):
        parse(SchemaSource(PROTOBUF, text)).check_new()


def test_custom_options_of_protobuf() -> None:
    """By name in a text, by number in a descriptor: each can be made of the other."""
    own = """
    syntax = "proto3"; package a; import "google/protobuf/descriptor.proto";
    message Level { int32 of = 1; repeated string names = 2; }
    extend google.protobuf.FieldOptions { Level level = 50001; string unit = 50002; }
    extend google.protobuf.MessageOptions { bool audited = 50003; }
    """
    text = """
    syntax = "proto3"; package b; import "confluent/meta.proto"; import "own.proto";
    message M {
      option (a.audited) = true;
      string ssn = 1 [(confluent.field_meta) = { tags: ["PII", "GDPR"], params: [{key: "k", value: "v"}] }];
      int32 size = 2 [(a.level) = { of: -3 }, (a.unit) = "µm", deprecated = true];
      int32 plain = 3 [(a.level).of = 4];
      int32 other = 4 [(nobody.knows) = 1];
    }
    """
    references = (("own.proto", own),)
    written = parse(SchemaSource(PROTOBUF, text, references))
    compiled = written.formatted("serialized")
    again = parse(SchemaSource(PROTOBUF, compiled, references))
    assert again.formatted("serialized") == compiled
    assert 'string ssn = 1 [(confluent.field_meta) = {params: [{key: "k", value: "v"}], tags: ["PII", "GDPR"]}];' in (
        again.canonical
    )
    assert '(a.unit) = "µm"' in again.canonical
    assert "option (a.audited) = true;" in again.canonical
    assert "(a.level) = {of: 4}" in again.canonical
    assert "(nobody.knows) = 1" in again.canonical
    descriptor = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(compiled))
    known = [len(field.options.uninterpreted_option) for field in descriptor.message_type[0].field]
    assert known == [0, 0, 0, 1]
    assert parse(SchemaSource(PROTOBUF, again.canonical, references)).canonical == again.canonical
    assert written.normalized == again.normalized
    assert written.normalized != parse(SchemaSource(PROTOBUF, text.replace("GDPR", "X"), references)).normalized


@pytest.mark.parametrize(
    "text",
    [
        "true",
        '{"type":"object","properties":[1]}',
        '{"allOf":5,"anyOf":{"a":1},"items":[{}],"$defs":[],"definitions":"x","not":3,"if":[]}',
        '{"type":["null","object"],"properties":{"a":true,"b":{"confluent:tags":"no list"}}}',
        '{"items":' * 450 + '{"type":"object"}' + "}" * 450,
    ],
)
def test_tags_of_schemas_that_may_be_wrong(text: str) -> None:
    """Tags are looked for before a new schema is checked."""
    parsed = parse(SchemaSource("JSON", text))
    assert parsed.tagged() == {}
    with pytest.raises(InvalidSchema, match=r"No matching path 'object\.absent'"):
        parsed.with_tags({Entity("object.absent", FIELD): ("T",)}, {})


def test_the_tags_of_nested_and_combined_json_schemas() -> None:
    text = (
        '{"type":"object","confluent:tags":["R"],"properties":{"a":{"type":"array","items":{"type":"object","properties":'
        '{"b":{"type":"string","confluent:tags":["B"]}}}},"c":{"oneOf":[{"type":"null"},{"type":"object",'
        '"confluent:tags":["C"],"properties":{}}]}},"$defs":{"d":{"type":"object","confluent:tags":["D"]}}}'
    )
    parsed = parse(SchemaSource("JSON", text))
    expected = {
        Entity("object", RECORD): ("R",),
        Entity("object.a.array.object.b", FIELD): ("B",),
        Entity("object.c.oneof.1.object", RECORD): ("C",),
        Entity("object.$defs.d.object", RECORD): ("D",),
    }
    assert parsed.tagged() == expected
    assert parse(SchemaSource("JSON", parsed.with_tags({}, expected))).tagged() == {}
    assert parsed.with_tags({}, {}) == parsed.canonical
