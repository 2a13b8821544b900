"""Random pairs of Avro schemas: what BACKWARD accepts, fastavro resolves; what it refuses, fails for some datum.

The data of a writer's schema cover every branch of every union and every symbol of every enum, so that a pair that
cannot be read has a datum which shows it.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator
from typing import Any

import fastavro
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.serdes.formats import SchemaSource, parse

PRIMITIVES = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
SAMPLES: dict[str, list[Any]] = {
    "null": [None],
    "boolean": [True],
    "int": [7],
    "long": [2**40],
    "float": [1.5],
    "double": [2.5],
    "bytes": [b"x"],
    "string": ["y"],
}
REFUSED = (ValueError, TypeError, EOFError, IndexError, KeyError, OverflowError, struct.error, AttributeError)


@st.composite
def avro_types(draw: st.DrawFn, depth: int = 2) -> Any:
    kinds = ["primitive", "primitive", "enum", "fixed"] + (["record", "array", "map", "union"] if depth else [])
    kind = draw(st.sampled_from(kinds))
    if kind == "primitive":
        return draw(st.sampled_from(PRIMITIVES))
    if kind == "enum":
        symbols = draw(st.lists(st.sampled_from("ABCD"), min_size=1, max_size=3, unique=True))
        return {"type": "enum", "name": draw(st.sampled_from(["E", "F"])), "symbols": symbols}
    if kind == "fixed":
        return {"type": "fixed", "name": draw(st.sampled_from(["X", "Y"])), "size": draw(st.integers(1, 2))}
    if kind == "array":
        return {"type": "array", "items": draw(avro_types(depth=depth - 1))}
    if kind == "map":
        return {"type": "map", "values": draw(avro_types(depth=depth - 1))}
    if kind == "union":
        return draw(st.lists(st.sampled_from(PRIMITIVES), min_size=1, max_size=3, unique=True))
    names = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True))
    fields = []
    for name in names:
        field = {"name": name, "type": draw(avro_types(depth=depth - 1))}
        if field["type"] == "int" and draw(st.booleans()):
            field["default"] = 3
        fields.append(field)
    return {"type": "record", "name": draw(st.sampled_from(["R", "S"])), "fields": fields}


@st.composite
def changed(draw: st.DrawFn, avro: Any) -> Any:
    """A schema like the given one, with one or two changes that people make."""
    if isinstance(avro, str):
        return draw(st.sampled_from(PRIMITIVES))
    if not isinstance(avro, dict) or avro["type"] != "record":
        return draw(avro_types(depth=1)) if draw(st.booleans()) else avro
    fields = [dict(field) for field in avro["fields"]]
    for _ in range(draw(st.integers(1, 2))):
        change = draw(st.sampled_from(["add", "add with default", "remove", "retype", "optional"]))
        if change.startswith("add"):
            added: dict[str, Any] = {"name": draw(st.sampled_from("defg")), "type": "int"}
            if change != "add":
                added["default"] = 1
            if all(field["name"] != added["name"] for field in fields):
                fields.append(added)
        elif fields:
            field = draw(st.sampled_from(fields))
            if change == "remove":
                fields.remove(field)
            elif change == "retype":
                field["type"] = draw(changed(field["type"]))
                field.pop("default", None)
            elif not isinstance(field["type"], list):
                field["type"] = ["null", field["type"]] if field["type"] != "null" else "null"
                field.pop("default", None)
    return {**avro, "fields": fields}


def data_of(avro: Any) -> Iterator[Any]:
    """Values that together take every branch and every symbol."""
    if isinstance(avro, list):
        for branch in avro:
            yield from data_of(branch)
    elif isinstance(avro, str):
        yield from SAMPLES[avro]
    elif avro["type"] == "enum":
        yield from avro["symbols"]
    elif avro["type"] == "fixed":
        yield b"z" * avro["size"]
    elif avro["type"] == "array":
        yield from ([item] for item in data_of(avro["items"]))
    elif avro["type"] == "map":
        yield from ({"k": value} for value in data_of(avro["values"]))
    else:
        columns = {field["name"]: list(data_of(field["type"])) for field in avro["fields"]}
        for index in range(max((len(values) for values in columns.values()), default=1)):
            yield {name: values[index % len(values)] for name, values in columns.items()}


def is_unique(avro: Any, seen: set[str]) -> bool:
    """Whether no name is defined twice, which Avro forbids."""
    if isinstance(avro, list):
        return all(is_unique(branch, seen) for branch in avro)
    if not isinstance(avro, dict):
        return True
    if "name" in avro:
        if avro["name"] in seen:
            return False
        seen.add(avro["name"])
    inner = [avro.get("items"), avro.get("values"), *(field["type"] for field in avro.get("fields", ()))]
    return all(is_unique(inner_type, seen) for inner_type in inner)


def resolves(writer: Any, reader: Any, datum: Any) -> bool:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(writer), datum)
    buffer.seek(0)
    try:
        fastavro.schemaless_reader(buffer, fastavro.parse_schema(writer), fastavro.parse_schema(reader))
    except (fastavro.read.SchemaResolutionError, *REFUSED):
        return False
    return True


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(st.data())
def test_what_is_accepted_resolves_and_what_is_refused_fails(data: st.DataObject) -> None:
    writer = data.draw(avro_types())
    reader = data.draw(changed(writer))
    if not is_unique(writer, set()) or not is_unique(reader, set()):
        return
    problems = parse(SchemaSource("AVRO", json.dumps(reader))).problems_reading(
        parse(SchemaSource("AVRO", json.dumps(writer)))
    )
    outcomes = {json.dumps(datum, default=repr): resolves(writer, reader, datum) for datum in data_of(writer)}
    assert all(outcomes.values()) == (not problems), (problems, outcomes)
