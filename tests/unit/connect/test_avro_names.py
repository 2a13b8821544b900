"""Fields whose names Avro does not allow."""

from __future__ import annotations

import io
from typing import Any

import fastavro
import pyarrow

from ottla.connect.api.schema import Field, Schema
from ottla.connect.plugins.converters.avro import plain
from ottla.connect.plugins.converters.avro_schema import avro_from_schema


def test_what_is_under_a_name_that_avro_does_not_allow_is_written() -> None:
    text, number = Schema(type="string", optional=True), Schema(type="int32", optional=True)
    inner = Schema(type="struct", optional=True, fields=(Field("2nd", number),))
    counts = Schema(type="map", keys=Schema(type="string"), values=number)
    schema = Schema(
        type="struct",
        fields=(Field("order-id", number), Field("größe", text), Field("a.b", inner), Field("counts", counts)),
    )
    value = {"order-id": 7, "größe": "L", "a.b": {"2nd": 2}, "counts": [("of-a", 1)]}
    avro: Any = fastavro.parse_schema(avro_from_schema(schema))
    buffer = io.BytesIO()
    small = pyarrow.int32()
    kind = pyarrow.struct(
        {
            "order-id": small,
            "größe": pyarrow.string(),
            "a.b": pyarrow.struct({"2nd": small}),
            "counts": pyarrow.map_(pyarrow.string(), small),
        }
    )
    fastavro.schemaless_writer(buffer, avro, plain(value, kind))
    buffer.seek(0)
    decoded = fastavro.schemaless_reader(buffer, avro, None)
    assert decoded == {"order_id": 7, "gr__e": "L", "a_b": {"_2nd": 2}, "counts": {"of-a": 1}}
