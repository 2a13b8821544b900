"""What the headers of a record say about its origin, read from a checkpoint's offset log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ottla.spark.lineage import INPUT_BYTES_MAX, input_ranges, lineage_headers


def log(checkpoint: Path, batch_id: int, *sources: Any) -> None:
    (checkpoint / "offsets").mkdir(exist_ok=True)
    lines = ["v1", '{"batchWatermarkMs":0}', *["-" if source is None else json.dumps(source) for source in sources]]
    (checkpoint / "offsets" / str(batch_id)).write_text("\n".join(lines))


def test_ranges_lie_between_two_entries_of_the_log(tmp_path: Path) -> None:
    log(tmp_path, 4, {"orders": {"0": 10, "1": 7}, "@id": {"orders": "x"}}, None, {"logOffset": 3})
    log(tmp_path, 5, {"orders": {"0": 17, "1": 7, "2": 2}, "@id": {"orders": "y"}}, None, {"logOffset": 3})
    assert input_ranges(str(tmp_path), 5) == {"source 0": {"orders": {"0": [10, 17], "2": [None, 2]}}}


def test_a_source_of_another_kind_is_told_as_it_is(tmp_path: Path) -> None:
    log(tmp_path, 0, {"logOffset": 0})
    log(tmp_path, 1, {"logOffset": 1})
    assert input_ranges(f"file:{tmp_path}", 0) == {"source 0": [None, {"logOffset": 0}]}
    assert input_ranges(tmp_path.as_uri(), 1) == {"source 0": [{"logOffset": 0}, {"logOffset": 1}]}


def test_headers_stay_small(tmp_path: Path) -> None:
    log(tmp_path, 0, {"orders": {str(number): 1_000_000 + number for number in range(1000)}})
    headers = dict(lineage_headers(query_id="q", batch_id=0, checkpoint=str(tmp_path)))
    assert headers["ottla.query"] == b"q"
    assert headers["ottla.batch"] == b"0"
    assert len(headers["ottla.input"]) < INPUT_BYTES_MAX
    assert b"bytes of ranges" in headers["ottla.input"]


def test_without_a_checkpoint_there_are_no_ranges() -> None:
    assert [name for name, _ in lineage_headers(query_id="q", batch_id=0, checkpoint=None)] == [
        "ottla.query",
        "ottla.batch",
    ]


def test_a_log_that_is_not_there_fails_the_task(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        input_ranges(str(tmp_path), 0)


def test_a_new_query_in_the_directory_of_an_earlier_one_has_its_own_ranges(tmp_path: Path) -> None:
    """A worker lives longer than a query. Batches of the new query are counted from 0 again."""
    for query_id, end in (("first", 10), ("second", 3)):
        log(tmp_path, 0, {"orders": {"0": end}})
        for _ in range(2):
            headers = dict(lineage_headers(query_id=query_id, batch_id=0, checkpoint=str(tmp_path)))
            assert json.loads(headers["ottla.input"]) == {"source 0": {"orders": {"0": [None, end]}}}
