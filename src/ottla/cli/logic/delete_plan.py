"""The plan of kafka-delete-records: `{"version":1,"partitions":[{"topic":"t","partition":0,"offset":3}]}`."""

from __future__ import annotations

import json
from collections.abc import Iterable

from ottla.model.ids import TopicPartition

__all__ = ["parse_plan", "parse_words"]


def parse_plan(text: str) -> dict[TopicPartition, int]:
    try:
        content = json.loads(text)
    except ValueError as error:
        raise ValueError(f"The file is not JSON: {error}.") from None
    if not isinstance(content, dict) or content.get("version", 1) != 1 or "partitions" not in content:
        raise ValueError('The file must look like {"version": 1, "partitions": [...]}.')
    offsets: dict[TopicPartition, int] = {}
    for entry in content["partitions"]:
        try:
            partition = TopicPartition(str(entry["topic"]), int(entry["partition"]))
            offset = int(entry["offset"])
        except (TypeError, KeyError, ValueError):
            raise ValueError(f"{entry!r} must have topic, partition and offset.") from None
        if partition in offsets:
            raise ValueError(f"{partition} is named twice.")
        offsets[partition] = offset
    return offsets


def parse_words(words: Iterable[str]) -> dict[TopicPartition, int]:
    """`topic:partition:offset`, the short way."""
    offsets = {}
    for word in words:
        parts = word.rsplit(":", 2)
        if len(parts) != 3 or not parts[1].isdecimal() or not parts[2].lstrip("-").isdecimal():
            raise ValueError(f"{word!r} does not look like topic:partition:offset.")
        offsets[TopicPartition(parts[0], int(parts[1]))] = int(parts[2])
    return offsets
