"""Lineage headers of records: query, batch, and the input ranges of the batch.

    ottla.query    the id of the query, which survives restarts
    ottla.batch    the number of the batch
    ottla.input    {"source 0": {"orders": {"0": [17, 42]}}}: from the first offset up to but not including the second

Ranges come from Spark's offset log (`<checkpoint>/offsets/<batch>`), which is written before the batch runs. It has the
offsets of every source, also after a shuffle, where a task sees rows of many ranges. Offsets of sources other than ours
and Kafka's are shown as they are, `[before, after]`. Empty ranges are left out, and the header is limited to 4 KiB,
because every record carries it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any

__all__ = ["input_ranges", "lineage_headers"]

INPUT_BYTES_MAX = 4096


@functools.lru_cache(maxsize=8)
def lineage_headers(*, query_id: str, batch_id: int, checkpoint: str | None) -> Sequence[tuple[str, bytes]]:
    """The lineage headers of all records of a batch, cached for the tasks of the batch."""
    headers = [("ottla.query", query_id.encode()), ("ottla.batch", str(batch_id).encode())]
    if checkpoint is not None:
        ranges = json.dumps(input_ranges(checkpoint, batch_id), separators=(",", ":"), sort_keys=True).encode()
        if len(ranges) > INPUT_BYTES_MAX:
            ranges = json.dumps({"cut": f"{len(ranges)} bytes of ranges"}).encode()
        headers.append(("ottla.input", ranges))
    return tuple(headers)


def input_ranges(checkpoint: str, batch_id: int) -> dict[str, Any]:
    """The input ranges of a batch by source, from the offset log of a checkpoint."""
    after = _offsets(checkpoint, batch_id)
    before = _offsets(checkpoint, batch_id - 1) if batch_id else []
    by_source: dict[str, Any] = {}
    for number, end in enumerate(after):
        start = before[number] if number < len(before) else None
        ranges = _between(start, end)
        if ranges:
            by_source[f"source {number}"] = ranges
    return by_source


def _between(start: Any, end: Any) -> Any:
    """Ranges by topic and partition; offsets of another shape as they are."""
    if end is None or start == end:
        return None
    if not _is_by_partition(end) or not (start is None or _is_by_partition(start)):
        return [start, end]
    by_topic: dict[str, dict[str, list[int | None]]] = {}
    for topic, numbers in end.items():
        for partition, last in numbers.items():
            first = (start or {}).get(topic, {}).get(partition)
            if first != last:
                by_topic.setdefault(topic, {})[partition] = [first, last]
    return by_topic


def _is_by_partition(offsets: Any) -> bool:
    return isinstance(offsets, dict) and all(
        isinstance(numbers, dict) and all(isinstance(number, int) for number in numbers.values())
        for numbers in offsets.values()
    )


def _offsets(checkpoint: str, batch_id: int) -> list[Any]:
    """An entry of the offset log: a version, a line about the batch, and a line for each source."""
    from pyarrow import fs

    if "://" in checkpoint:
        system, root = fs.FileSystem.from_uri(checkpoint)
    else:
        system, root = fs.LocalFileSystem(), checkpoint.removeprefix("file:")
    with system.open_input_stream(f"{root.rstrip('/')}/offsets/{batch_id}") as stream:
        lines = stream.read().decode().splitlines()
    return [None if line == "-" else _json(line) for line in lines[2:]]


def _json(line: str) -> Any:
    """The offsets of a source, without our entries whose names begin with @."""
    offsets = json.loads(line)
    if isinstance(offsets, dict):
        return {name: value for name, value in offsets.items() if not name.startswith("@")}
    return offsets
