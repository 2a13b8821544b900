"""A record with an empty map is Avro like any other."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from ottla.connect.plugins.converters import avro as converter


def test_empty_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converter, "arrow_function", lambda function, _: function)
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "m", "type": ["null", {"type": "map", "values": "int"}]}],
    }
    values = pa.array(
        [{"m": [("a b", 1)]}, {"m": []}, {"m": None}], pa.struct([("m", pa.map_(pa.string(), pa.int32()))])
    )
    encoded = converter._encoded(values, json.dumps(schema)).to_pylist()
    assert [row["problem"] for row in encoded] == [None, None, None]
    assert [row["bytes"] for row in encoded] == [b"\x02\x02\x06a b\x02\x00", b"\x02\x00", b"\x00"]
