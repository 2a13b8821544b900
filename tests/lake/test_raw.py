"""Raw tables: every record of a topic is a row, once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.lake.lakes import Lake
from tests.support.spark_topics import Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_records_are_rows_and_the_snapshot_names_their_offsets(
    spark: SparkSession, topics: Topics, tmp_path: Path
) -> None:
    name = topics.create(partitions=2)
    topics.send(name, [(b"k", b"v", [("h", b"1"), ("h", None)]), (None, b"", []), (b"", None, [])], partition=1)
    lake = Lake(topics, tmp_path)
    pipeline = lake.pipeline(spark, name)

    assert pipeline.step() == 3
    assert pipeline.step() == 0

    assert lake.rows(name) == [
        (1, 0, b"k", b"v", [("h", b"1"), ("h", None)]),
        (1, 1, None, b"", []),
        (1, 2, b"", None, []),
    ]
    summary = lake.table(name).current_snapshot().summary.additional_properties
    assert json.loads(summary["ottla.offsets"]) == {"0": 0, "1": 3}
    assert (summary["ottla.topic"], summary["ottla.topic-id"]) == (name, topics.id_of(name))
