"""Generated data at a steady rate, for demonstrations, tests and measurements.

Every value is a function of the seed, the task, the field and the record number. So every range can be generated again
with the same records; the offset is the number of the next record.

Fields are declared in JSON, as in the templates:

    [{"name": "id", "type": "int64", "kind": "sequence"},
     {"name": "user", "type": "int64", "min": 1, "max": 500},
     {"name": "page", "type": "string", "choices": ["/", "/cart"]},
     {"name": "at", "type": "timestamp", "kind": "time"}]
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.connect.api import (
    ConfigDefinitions,
    ConfigError,
    ConfigType,
    Delivery,
    DeliveryClaim,
    Importance,
    NonEmpty,
    OneOf,
    Range,
    ReadLimit,
    Setting,
    Settings,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceReader,
    Task,
)

if TYPE_CHECKING:
    import numpy
    import pyarrow

__all__ = ["TEMPLATES", "GeneratorReader", "GeneratorSourceConnector"]

TEMPLATES: Mapping[str, list[dict[str, Any]]] = {
    "clickstream": [
        {"name": "click_id", "type": "int64", "kind": "sequence"},
        {"name": "at", "type": "timestamp", "kind": "time"},
        {"name": "user_id", "type": "int64", "min": 1, "max": 1000},
        {"name": "session", "type": "string", "prefix": "s-", "min": 0, "max": 9999},
        {
            "name": "page",
            "type": "string",
            "choices": ["/", "/search", "/product", "/cart", "/checkout", "/help", "/account"],
        },
        {"name": "referrer", "type": "string", "choices": ["direct", "search", "mail", "advertisement", "social"]},
        {"name": "status", "type": "int32", "choices": [200, 200, 200, 200, 200, 200, 200, 302, 404, 500]},
        {"name": "bytes", "type": "int32", "min": 200, "max": 60000},
        {"name": "duration_ms", "type": "double", "min": 1, "max": 900},
    ],
    "users": [
        {"name": "user_id", "type": "int64", "kind": "sequence"},
        {"name": "name", "type": "string", "prefix": "user-", "min": 1, "max": 99999},
        {"name": "region", "type": "string", "choices": ["north", "south", "east", "west"]},
        {"name": "gender", "type": "string", "choices": ["female", "male", "other"]},
        {"name": "registered", "type": "timestamp", "kind": "time"},
        {"name": "active", "type": "boolean"},
    ],
    "orders": [
        {"name": "order_id", "type": "int64", "kind": "sequence"},
        {"name": "at", "type": "timestamp", "kind": "time"},
        {"name": "user_id", "type": "int64", "min": 1, "max": 1000},
        {"name": "item", "type": "string", "prefix": "item-", "min": 1, "max": 500},
        {"name": "quantity", "type": "int32", "min": 1, "max": 9},
        {"name": "price", "type": "double", "min": 1, "max": 500},
        {"name": "paid", "type": "boolean"},
    ],
}
SPARK_TYPES = {
    "int32": "int",
    "int64": "bigint",
    "double": "double",
    "string": "string",
    "boolean": "boolean",
    "timestamp": "timestamp",
}
ROWS_PER_BATCH = 65_536


class GeneratorSourceConnector(SourceConnector):
    """Generates records: clicks, users, orders, or configured fields."""

    aliases = ("Datagen", "io.confluent.kafka.connect.datagen.DatagenConnector")
    claim = DeliveryClaim(Delivery.EXACTLY_ONCE, "every range of records can be generated again")

    @classmethod
    def config_definitions(cls) -> ConfigDefinitions:
        return (
            ConfigDefinitions()
            .define("topic", ConfigType.STRING, importance=Importance.HIGH, validator=NonEmpty(),
                    documentation="The topic to write to.")
            .define("template", ConfigType.STRING, default="clickstream", importance=Importance.HIGH,
                    validator=OneOf(*TEMPLATES), documentation=f"Which records: {', '.join(TEMPLATES)}.")
            .define("fields", ConfigType.STRING, default=None, validator=_check_fields,
                    documentation="Fields of one's own, as a JSON list, instead of a template.")
            .define("key.field", ConfigType.STRING, default=None, documentation="The field that is the key as well.")
            .define("rate", ConfigType.DOUBLE, default=10.0, importance=Importance.HIGH, validator=Range(minimum=0),
                    documentation="Records per second, of all tasks together; 0 is as fast as possible.")
            .define("count", ConfigType.LONG, default=-1, validator=Range(minimum=-1),
                    documentation="How many records each task makes; -1 is without end.")
            .define("seed", ConfigType.LONG, default=0, documentation="Another seed gives other records.")
            .define("start.time.ms", ConfigType.LONG, default=1_700_000_000_000, importance=Importance.LOW,
                    documentation="The time of the first record, in fields that are times.")
        )  # fmt: skip

    def plan(self, config: Mapping[str, str], max_tasks: int) -> list[dict[str, str]]:
        return [{**config, "task.number": str(number), "task.count": str(max_tasks)} for number in range(max_tasks)]

    def reader(self, task: Task) -> SourceReader:
        return GeneratorReader(
            self.config_definitions().parse(task.config),
            task=int(task.config.get("task.number", task.number)),
            tasks=int(task.config.get("task.count", "1")),
        )


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    type: str
    declared: Mapping[str, Any]


class GeneratorReader(SourceReader):
    """Generates ranges of records."""

    def __init__(
        self, settings: Settings, *, task: int = 0, tasks: int = 1, now: Callable[[], float] = time.monotonic
    ) -> None:
        text = settings.text_or_none("fields")
        declared = json.loads(text) if text else TEMPLATES[settings.text("template")]
        self._fields = [_Field(field["name"], field["type"], field) for field in declared]
        self._settings = settings
        self._task = task
        self._rate = settings.number("rate") / tasks
        self._now = now
        # The time and the record number at the start of this reader, from which the rate counts.
        self._began: tuple[float, int] | None = None
        key = settings.text_or_none("key.field")
        if key is not None and key not in [field.name for field in self._fields]:
            raise ConfigError(f"key.field is '{key}', but there is no such field.", name="key.field")
        self._key = key

    def partitions(self) -> Sequence[SourcePartition]:
        return [{"generator": self._settings.text("topic"), "task": self._task}]

    def schema(self, partition: SourcePartition) -> str:
        fields = ", ".join(f"`{field.name}`: {SPARK_TYPES[field.type]}" for field in self._fields)
        key = next((f"key {SPARK_TYPES[field.type]}, " for field in self._fields if field.name == self._key), "")
        return f"{key}value struct<{fields}>"

    def latest(self, partition: SourcePartition, start: SourceOffset | None, limit: ReadLimit) -> SourceOffset | None:
        position = _number(start)
        if self._began is None:
            self._began = (self._now(), position)
        end = position + limit.records
        if self._rate > 0:
            began, first = self._began
            end = min(end, first + int((self._now() - began) * self._rate))
        count = self._settings.integer("count")
        if count >= 0:
            end = min(end, count)
        return start if end <= position else {"record": end}

    def read(
        self, partition: SourcePartition, start: SourceOffset | None, end: SourceOffset
    ) -> Iterator[pyarrow.RecordBatch]:
        position, last = _number(start), _number(end)
        while position < last:
            rows = min(ROWS_PER_BATCH, last - position)
            yield self._rows(position, rows)
            position += rows

    def _rows(self, first: int, rows: int) -> pyarrow.RecordBatch:
        import numpy
        import pyarrow

        numbers: numpy.ndarray = numpy.arange(first, first + rows, dtype=numpy.uint64)
        arrays = [self._values(place, field, numbers) for place, field in enumerate(self._fields)]
        names = [field.name for field in self._fields]
        value = pyarrow.StructArray.from_arrays(arrays, names)
        if self._key is None:
            return pyarrow.RecordBatch.from_arrays([value], ["value"])
        return pyarrow.RecordBatch.from_arrays([arrays[names.index(self._key)], value], ["key", "value"])

    def _values(self, place: int, field: _Field, numbers: numpy.ndarray) -> pyarrow.Array:
        import numpy
        import pyarrow

        declared = field.declared
        if declared.get("kind") == "sequence":
            return pyarrow.array(numbers.astype(numpy.int64)).cast(_arrow_type(field.type))
        if declared.get("kind") == "time":
            rate = self._rate if self._rate > 0 else 1000.0
            start = self._settings.integer("start.time.ms")
            micros = start * 1000 + (numbers.astype(numpy.float64) * (1_000_000.0 / rate)).astype(numpy.int64)
            return pyarrow.array(micros).cast(pyarrow.timestamp("us", tz="UTC"))
        chance = _chance(numbers, self._settings.integer("seed"), self._task, place)
        if "choices" in declared:
            chosen = (chance % numpy.uint64(len(declared["choices"]))).astype(numpy.int64)
            return pyarrow.array(declared["choices"]).take(pyarrow.array(chosen)).cast(_arrow_type(field.type))
        if field.type == "boolean":
            return pyarrow.array((chance & numpy.uint64(1)).astype(bool))
        low, high = declared.get("min", 0), declared.get("max", 1_000_000)
        if field.type == "double":
            part = (chance >> numpy.uint64(11)).astype(numpy.float64) / float(1 << 53)
            return pyarrow.array(numpy.round(low + part * (high - low), 2))
        whole = low + (chance % numpy.uint64(high - low + 1)).astype(numpy.int64)
        if field.type == "string":
            import pyarrow.compute

            texts = pyarrow.array(whole).cast(pyarrow.string())
            return pyarrow.compute.binary_join_element_wise(declared.get("prefix", ""), texts, "")
        return pyarrow.array(whole).cast(_arrow_type(field.type))


def _chance(numbers: numpy.ndarray, seed: int, task: int, place: int) -> numpy.ndarray:
    """64 pseudo-random bits for each number: SplitMix64 of a counter."""
    import numpy

    mixed = (seed * 0x9E3779B97F4A7C15 + task * 0xD1B54A32D192ED03 + place * 0x8CB92BA72F3D8DD7) % (1 << 64)
    with numpy.errstate(over="ignore"):
        value = (numbers + numpy.uint64(1)) * numpy.uint64(0x9E3779B97F4A7C15) + numpy.uint64(mixed)
        value = (value ^ (value >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        return value ^ (value >> numpy.uint64(31))


def _number(offset: SourceOffset | None) -> int:
    return 0 if offset is None else int(offset.get("record") or 0)


def _arrow_type(name: str) -> pyarrow.DataType:
    import pyarrow

    kinds = {
        "int32": pyarrow.int32(),
        "int64": pyarrow.int64(),
        "double": pyarrow.float64(),
        "string": pyarrow.string(),
        "boolean": pyarrow.bool_(),
    }
    return kinds[name]


def _check_fields(value: Setting) -> str | None:
    if value in (None, ""):
        return None
    try:
        fields = json.loads(str(value))
    except ValueError as error:
        return f"it must be JSON: {error}."
    if not isinstance(fields, list) or not fields:
        return "it must be a list of fields."
    for field in fields:
        if (
            not isinstance(field, dict)
            or not isinstance(field.get("name"), str)
            or field.get("type") not in SPARK_TYPES
        ):
            return f"each field has a name and a type ({', '.join(SPARK_TYPES)}): {json.dumps(field)}."
    return None
