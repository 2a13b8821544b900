"""Writes the cases of transforms without the expected results, which come from Kafka (see README.md here)."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any


def field(field_name: str, kind: str, *, optional: bool = False, **more: Any) -> dict[str, Any]:
    return {"type": kind, "optional": optional, "field": field_name, **more}


def struct(*fields: dict[str, Any], optional: bool = False, **more: Any) -> dict[str, Any]:
    return {"type": "struct", "fields": list(fields), "optional": optional, **more}


def envelope(schema: Any, payload: Any) -> dict[str, Any]:
    return {"schema": schema, "payload": payload}


DATA = "org.apache.kafka.connect.data."
MOMENT = 1_700_000_123_456
ORDER = struct(
    field("id", "int32"),
    field("name", "string", optional=True),
    field("price", "double"),
    field("paid", "boolean"),
    field("size", "int64", default=7),
    name="shop.Order",
    version=2,
    doc="an order",
)
ORDER_1 = {"id": 300, "name": "tea", "price": 2.75, "paid": True, "size": 5_000_000_000}
ORDER_NULL = {"id": 1, "name": None, "price": -0.5, "paid": False, "size": 70000}
TYPES = struct(
    field("b", "bytes", optional=True),
    field("d", "int32", name=DATA + "Date", version=1),
    field("t", "int32", name=DATA + "Time", version=1),
    field("ts", "int64", name=DATA + "Timestamp", version=1),
    field("dec", "bytes", name=DATA + "Decimal", version=1, parameters={"scale": "2"}),
    field("list", "array", items={"type": "int32", "optional": False}),
    field("map", "map", keys={"type": "string", "optional": False}, values={"type": "int64", "optional": True}),
    field("pairs", "map", keys={"type": "int32", "optional": False}, values={"type": "string", "optional": False}),
    field("f", "float"),
    field("tiny", "int8"),
    field("short", "int16"),
)
TYPES_1 = {
    "b": "AQID",
    "d": 19000,
    "t": 3_600_001,
    "ts": MOMENT,
    "dec": "MDk=",
    "list": [1, 2],
    "map": {"x": 1, "y": None},
    "pairs": [[1, "a"]],
    "f": 1.5,
    "tiny": -8,
    "short": 1600,
}
NESTED = struct(
    field("id", "int32"),
    {**struct(field("city", "string"), field("zip", "int32", optional=True), optional=True), "field": "home"},
    {
        **struct({**struct(field("deep", "int64", default=3)), "field": "b"}),
        "field": "a",
    },
    field("tags", "array", items={"type": "string", "optional": False}),
)
NESTED_1 = {"id": 1, "home": {"city": "Wien", "zip": 1010}, "a": {"b": {"deep": 9}}, "tags": ["x"]}
NESTED_2 = {"id": 2, "home": None, "a": {"b": {"deep": None}}, "tags": []}
PLAIN = {
    "id": 5,
    "name": "tea",
    "price": 2.5,
    "ok": True,
    "none": None,
    "inner": {"x": 1, "y": {"z": "q"}},
    "l": [1, 2],
}
LONG = {"type": "int64", "optional": False}
STRING_KEY = envelope({"type": "string", "optional": False}, "k1")


ORDER_MESSAGE, ORDER_NULL_MESSAGE = envelope(ORDER, ORDER_1), envelope(ORDER, ORDER_NULL)
TYPES_MESSAGE = envelope(TYPES, TYPES_1)
NESTED_MESSAGE, NESTED_NULL_MESSAGE = envelope(NESTED, NESTED_1), envelope(NESTED, NESTED_2)
ORDER_KEY = {"key": ORDER_MESSAGE, "value": STRING_KEY}

Add = Callable[..., None]


def casts(add: Add) -> None:
    for spec in ("id:string,price:int32", "id:int8,size:int32", "price:string,paid:int64", "size:float32,id:boolean"):
        add("Cast$Value", {"spec": spec}, ORDER_MESSAGE)
        add("Cast$Value", {"spec": spec}, ORDER_NULL_MESSAGE)
    add("Cast$Value", {"spec": "name:int32"}, ORDER_MESSAGE)
    add("Cast$Value", {"spec": "name:boolean,paid:string"}, ORDER_MESSAGE)
    add("Cast$Value", {"spec": "d:string,t:string,ts:string,b:string,dec:string"}, TYPES_MESSAGE)
    add("Cast$Value", {"spec": "d:int64,ts:int64,t:int64,dec:float64,f:string"}, TYPES_MESSAGE)
    add("Cast$Value", {"spec": "list:string"}, TYPES_MESSAGE)
    add("Cast$Key", {"spec": "id:string"}, **ORDER_KEY)
    for kind in ("int32", "string", "boolean", "float64"):
        add("Cast$Value", {"spec": kind}, envelope({"type": "int64", "optional": False}, 5_000_000_001))
        add("Cast$Value", {"spec": kind}, envelope({"type": "double", "optional": True}, -1.9))
    for text in ("12", "1.5", "abc", "+7", "300", "TRUE"):
        for kind in ("int8", "int32", "float64", "boolean"):
            add("Cast$Value", {"spec": kind}, envelope({"type": "string", "optional": False}, text))
    add("Cast$Value", {"spec": "id:string,price:int32,gone:int8"}, PLAIN, key=None, schemas=False)
    add("Cast$Value", {"spec": "int32"}, None)


def extractions(add: Add) -> None:
    add("ExtractField$Value", {"field": "name"}, ORDER_MESSAGE)
    add("ExtractField$Value", {"field": "size"}, ORDER_MESSAGE)
    add("ExtractField$Value", {"field": "ts"}, TYPES_MESSAGE)
    add("ExtractField$Value", {"field": "gone"}, ORDER_MESSAGE)
    add("ExtractField$Value", {"field": "home.city", "field.syntax.version": "V2"}, NESTED_MESSAGE)
    add("ExtractField$Value", {"field": "home.city", "field.syntax.version": "V2"}, NESTED_NULL_MESSAGE)
    add("ExtractField$Value", {"field": "inner.x", "field.syntax.version": "V2"}, PLAIN, key=None, schemas=False)
    add("ExtractField$Value", {"field": "gone"}, PLAIN, key=None, schemas=False)
    add("ExtractField$Key", {"field": "id"}, **ORDER_KEY)
    add("ExtractField$Value", {"field": "x"}, envelope({"type": "string", "optional": False}, "text"))

    add("Flatten$Value", {}, NESTED_MESSAGE)
    add("Flatten$Value", {"delimiter": "_"}, NESTED_NULL_MESSAGE)
    add("Flatten$Value", {}, PLAIN, key=None, schemas=False)
    add("Flatten$Value", {}, TYPES_MESSAGE)
    add("Flatten$Key", {}, key=NESTED_MESSAGE, value=STRING_KEY)
    add("Flatten$Value", {}, None)


def headers(add: Add) -> None:
    add("HeaderFrom$Value", {"fields": "id,name", "headers": "h1,h2", "operation": "move"}, ORDER_MESSAGE)
    add(
        "HeaderFrom$Value",
        {"fields": "price,paid", "headers": "h1,h2", "operation": "copy"},
        ORDER_MESSAGE,
        headers=[["a", "b"]],
    )
    add("HeaderFrom$Value", {"fields": "ts,d,dec,list", "headers": "1,2,3,4", "operation": "copy"}, TYPES_MESSAGE)
    add("HeaderFrom$Value", {"fields": "gone", "headers": "h", "operation": "copy"}, ORDER_MESSAGE)
    add("HeaderFrom$Value", {"fields": "id", "headers": "h", "operation": "move"}, PLAIN, key=None, schemas=False)
    add("HeaderFrom$Key", {"fields": "id", "headers": "h", "operation": "move"}, **ORDER_KEY)
    add("HeaderFrom$Value", {"fields": "id", "headers": "h", "operation": "copy"}, None)

    for literal in ("text", "12", "1.5", "true", "2024-01-02", "40000", "a b", ""):
        add("InsertHeader", {"header": "h", "value.literal": literal}, ORDER_MESSAGE, headers=[["h", "x"]])
    add("DropHeaders", {"headers": "a,b"}, ORDER_MESSAGE, headers=[["a", "1"], ["c", "2"], ["a", "3"]])


def insertions(add: Add) -> None:
    add("HoistField$Value", {"field": "all"}, ORDER_MESSAGE)
    add("HoistField$Value", {"field": "all"}, PLAIN, key=None, schemas=False)
    add("HoistField$Key", {"field": "k"}, ORDER_MESSAGE)

    fields = {
        "topic.field": "t",
        "partition.field": "p!",
        "offset.field": "o?",
        "timestamp.field": "ts",
        "static.field": "s",
        "static.value": "constant",
    }
    add("InsertField$Value", fields, ORDER_MESSAGE, timestamp=MOMENT)
    add("InsertField$Value", fields, ORDER_MESSAGE)
    add("InsertField$Value", fields, PLAIN, key=None, schemas=False, timestamp=MOMENT)
    add("InsertField$Value", {"topic.field": "t"}, None)
    add("InsertField$Value", {"topic.field": "t"}, STRING_KEY)
    add("InsertField$Key", {"static.field": "s!", "static.value": "1"}, **ORDER_KEY)

    add("ValueToKey", {"fields": "id,name"}, ORDER_MESSAGE)
    add("ValueToKey", {"fields": "size"}, ORDER_NULL_MESSAGE)
    add("ValueToKey", {"fields": "gone"}, ORDER_MESSAGE)
    add("ValueToKey", {"fields": "id,gone"}, PLAIN, key=None, schemas=False)
    add("ValueToKey", {"fields": "id"}, None)
    add("Filter", {}, ORDER_MESSAGE)


def masks(add: Add) -> None:
    add("MaskField$Value", {"fields": "id,name,price,paid,size"}, ORDER_MESSAGE)
    add("MaskField$Value", {"fields": "name,id"}, ORDER_NULL_MESSAGE)
    add("MaskField$Value", {"fields": "name,id", "replacement": "99"}, ORDER_MESSAGE)
    add("MaskField$Value", {"fields": "paid", "replacement": "99"}, ORDER_MESSAGE)
    add("MaskField$Value", {"fields": "d,ts,dec,list,map,f,tiny"}, TYPES_MESSAGE)
    add("MaskField$Value", {"fields": "b"}, TYPES_MESSAGE)
    add("MaskField$Value", {"fields": "name,price,l,none"}, PLAIN, key=None, schemas=False)
    add("MaskField$Value", {"fields": "name"}, None)
    add("MaskField$Key", {"fields": "name"}, **ORDER_KEY)

    add("ReplaceField$Value", {"exclude": "name,price"}, ORDER_MESSAGE)
    add("ReplaceField$Value", {"include": "id,name", "renames": "id:number"}, ORDER_MESSAGE)
    add("ReplaceField$Value", {"include": "id,name", "exclude": "name"}, PLAIN, key=None, schemas=False)
    add("ReplaceField$Value", {"renames": "name:title,inner:i"}, PLAIN, key=None, schemas=False)
    add("ReplaceField$Value", {"exclude": "name"}, None)
    add("ReplaceField$Key", {"exclude": "name"}, **ORDER_KEY)

    add("SetSchemaMetadata$Value", {"schema.name": "x.Y", "schema.version": "9"}, ORDER_MESSAGE)
    add("SetSchemaMetadata$Value", {"schema.version": "9"}, ORDER_MESSAGE)
    add("SetSchemaMetadata$Value", {"schema.name": "x"}, STRING_KEY)
    add("SetSchemaMetadata$Value", {"schema.name": "x"}, PLAIN, key=None, schemas=False)
    add("SetSchemaMetadata$Key", {"schema.name": "x"}, **ORDER_KEY)


def routes(add: Add) -> None:
    for regex, replacement, topic in (
        ("(.*)-(.*)", "$2.$1", "a-b"),
        ("ord", "x", "orders"),
        ("orders", "x", "orders"),
        ("o.*s", "all", "orders"),
        ("a|ab", "x", "ab"),
    ):
        add("RegexRouter", {"regex": regex, "replacement": replacement}, ORDER_MESSAGE, topic=topic)

    add("TimestampRouter", {}, ORDER_MESSAGE, timestamp=MOMENT)
    config = {"topic.format": "x-${timestamp}-${topic}", "timestamp.format": "yyyy.MM.dd'T'HH"}
    add("TimestampRouter", config, ORDER_MESSAGE, timestamp=MOMENT)
    add("TimestampRouter", {}, ORDER_MESSAGE)


def times(add: Add) -> None:
    for target in ("string", "unix", "Date", "Time", "Timestamp"):
        config = {"target.type": target, "format": "yyyy-MM-dd HH:mm:ss.SSS"}
        for name in ("ts", "d", "t"):
            add("TimestampConverter$Value", {**config, "field": name}, TYPES_MESSAGE)
        text = struct(field("when", "string", optional=True), field("n", "int64"))
        add(
            "TimestampConverter$Value",
            {**config, "field": "when"},
            envelope(text, {"when": "2023-11-14 22:15:23.456", "n": 1}),
        )
        add("TimestampConverter$Value", {**config, "field": "when"}, envelope(text, {"when": None, "n": 1}))
        add("TimestampConverter$Value", config, envelope({"type": "int64", "optional": False}, MOMENT))
        add(
            "TimestampConverter$Value",
            config,
            envelope({"type": "string", "optional": False}, "1969-12-31 23:59:59.999"),
        )
    for unit in ("seconds", "milliseconds", "microseconds", "nanoseconds"):
        config = {"target.type": "unix", "unix.precision": unit}
        add("TimestampConverter$Value", {**config, "field": "ts"}, TYPES_MESSAGE)
        config = {"target.type": "Timestamp", "unix.precision": unit, "field": "n"}
        add("TimestampConverter$Value", config, envelope(struct(field("n", "int64")), {"n": 1_700_000_123_456_789}))
    config = {"target.type": "Timestamp", "format": "yyyy-MM-dd", "field": "when"}
    add("TimestampConverter$Value", config, envelope(struct(field("when", "string")), {"when": "not a date"}))
    add("TimestampConverter$Value", config, envelope(struct(field("when", "int32")), {"when": 1}))
    add("TimestampConverter$Value", config, envelope(struct(field("other", "int32")), {"other": 1}))
    config = {"target.type": "string", "format": "yyyy-MM-dd", "field": "at"}
    add("TimestampConverter$Value", config, {"at": MOMENT, "x": "y"}, key=None, schemas=False)
    add(
        "TimestampConverter$Key",
        {"target.type": "Date"},
        key=envelope({"type": "int64", "optional": False}, MOMENT),
        value=None,
    )
    add("TimestampConverter$Value", {"target.type": "Date", "field": "x"}, None)


def cases() -> list[dict[str, Any]]:
    collected: list[dict[str, Any]] = []

    def add(transform: str, config: dict[str, str], value: Any, key: Any = STRING_KEY, **more: Any) -> None:
        name = f"{transform} {json.dumps(config)}"
        name += f" {sum(case['name'].startswith(name) for case in collected)}"
        collected.append({"name": name, "transform": transform, "config": config, "key": key, "value": value, **more})

    for add_cases in (casts, extractions, headers, insertions, masks, routes, times):
        add_cases(add)
    return collected


if __name__ == "__main__":
    json.dump(cases(), sys.stdout, indent=1)
