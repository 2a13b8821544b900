"""Rows that are written without conversion: the conditions, and the written bytes."""

from __future__ import annotations

import pyarrow
import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from ottla.connect.plugins import Plugins
from ottla.connect.work.chain import build_chain
from ottla.connect.work.jobs import _as_bytes

STRING, BYTES, JSON = "StringConverter", "ByteArrayConverter", "JsonConverter"
UPPER = {"transforms": "t", "transforms.t.type": "InsertField$Value", "transforms.t.static.field": "a",
         "transforms.t.static.value": "b"}  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "config", "kept"),
    [
        ("value string", {"value.converter": STRING}, True),
        ("key string, value binary", {"key.converter": STRING, "value.converter": BYTES}, True),
        # Bytes are written as text in base64, other encodings change text, and JSON quotes it.
        ("value binary", {"value.converter": STRING}, False),
        ("value string", {"value.converter": STRING, "value.converter.converter.encoding": "UTF-16"}, False),
        ("value string", {"value.converter": JSON}, False),
        ("key bigint, value string", {"key.converter": STRING, "value.converter": STRING}, False),
        # A row with a topic or a timestamp needs more than its bytes.
        ("value string, topic string", {"value.converter": STRING}, False),
        ("value string", {"value.converter": STRING, **UPPER}, False),
    ],
)
def test_only_unchanged_text_and_bytes_are_kept(schema: str, config: dict[str, str], kept: bool) -> None:
    kinds = {"string": StringType(), "binary": BinaryType(), "bigint": LongType()}
    columns = [StructField(name, kinds[kind]) for name, kind in (word.split() for word in schema.split(", "))]
    assert build_chain(config, Plugins(())).keeps(StructType(columns)) is kept


def test_a_sink_reads_what_its_writer_looks_at_unless_others_look_too() -> None:
    plain = {"value.converter": STRING}
    assert build_chain(plain, Plugins(())).needs(("value",)) == ("value",)
    assert build_chain(plain, Plugins(())).needs(None) is None
    assert build_chain({**plain, **UPPER}, Plugins(())).needs(("value",)) is None
    letters = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "dead"}
    assert build_chain({**plain, **letters}, Plugins(())).needs(("value",)) is None


def test_text_becomes_its_bytes_and_knows_its_topic() -> None:
    rows = pyarrow.RecordBatch.from_pydict({"value": pyarrow.array(["é", None, ""])})
    (written,) = _as_bytes(iter([rows]), "t")
    assert written.to_pydict() == {"value": ["é".encode(), None, b""], "topic": ["t", "t", "t"]}
