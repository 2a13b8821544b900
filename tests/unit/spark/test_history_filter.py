"""The filter for the rows of wanted offsets in the table of a topic."""

from __future__ import annotations

import pyarrow as pa
import pytest

pytest.importorskip("pyiceberg")

from pyiceberg.expressions.visitors import bind
from pyiceberg.io.pyarrow import expression_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType, NestedField

from ottla.spark.source.history import _filter

SCHEMA = Schema(NestedField(1, "partition", IntegerType()), NestedField(2, "offset", LongType()))


@pytest.mark.parametrize("partitions", [1, 2, 2000])
def test_a_topic_may_have_many_partitions(partitions: int) -> None:
    rows = pa.table({"partition": [0, 0, partitions - 1, partitions], "offset": [4, 5, 9, 9]})
    wanted = bind(SCHEMA, _filter(dict.fromkeys(range(partitions), (5, 10))), case_sensitive=True)
    expected = [{"partition": 0, "offset": 5}, {"partition": partitions - 1, "offset": 9}]
    assert rows.filter(expression_to_pyarrow(wanted)).to_pylist() == expected
