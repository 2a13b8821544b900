"""The offset of a stream in its checkpoint: an offset for each partition, and the topic ids.

Its JSON is that of Spark's own connector, with one more entry, whose name no topic can have:

    {"orders": {"0": 17, "1": 4}, "@id": {"orders": "0dVQ8l3vTL2RZBkrDcrC6g"}}

A topic that was deleted and created again has a new topic id, and offsets of the old topic do not apply to it. `@lost`
is in the offset of a batch with data loss under `onDataLoss=report`: the number of lost offsets by partition, or -1 if
it is unknown because the topic was created again or its log was truncated. `@from` is in the end offset of a batch with
new partitions: their start offsets, so that a repeated batch is the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.model.ids import TopicPartition

__all__ = ["SourceOffset"]

_IDS = "@id"
_LOST = "@lost"
_FROM = "@from"


@dataclass(slots=True)
class SourceOffset:
    """Offsets are of the next record: a batch reads from its start up to but not including its end."""

    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    lost: dict[TopicPartition, int] = field(default_factory=dict)
    # In the end of a batch: the start offsets of its new partitions.
    begins: dict[TopicPartition, int] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> SourceOffset:
        """Accepts also the JSON of Spark's own connector, which has no topic ids."""
        return cls(
            offsets=_flat(value),
            topic_ids=dict(value.get(_IDS, {})),
            lost=_flat(value.get(_LOST, {})),
            begins=_flat(value.get(_FROM, {})),
        )

    def to_json(self) -> dict[str, Any]:
        entries: dict[str, Any] = _nested(self.offsets)
        if self.topic_ids:
            entries[_IDS] = dict(sorted(self.topic_ids.items()))
        if self.lost:
            entries[_LOST] = _nested(self.lost)
        if self.begins:
            entries[_FROM] = _nested(self.begins)
        return entries

    def of(self, topic: str) -> dict[int, int]:
        """The offsets of one topic by partition."""
        return {partition.partition: offset for partition, offset in self.offsets.items() if partition.topic == topic}


def _flat(value: Mapping[str, Any]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, offsets in value.items()
        if not topic.startswith("@")
        for partition, offset in offsets.items()
    }


def _nested(offsets: Mapping[TopicPartition, int]) -> dict[str, Any]:
    by_topic: dict[str, Any] = {}
    for key in sorted(offsets):
        by_topic.setdefault(key.topic, {})[str(key.partition)] = offsets[key]
    return by_topic
