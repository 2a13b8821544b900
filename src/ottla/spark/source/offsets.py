"""What a stream remembers between its batches: an offset for each partition, and which topic it was.

As JSON it is what Spark's own connector writes, and one entry more, whose name no topic can have:

    {"orders": {"0": 17, "1": 4}, "@id": {"orders": "0dVQ8l3vTL2RZBkrDcrC6g"}}

A topic that was deleted and made again has another id; offsets of the old one mean nothing in it. `@lost` is there in
the offset of a batch that had to leave something out under `onDataLoss=report`: how many offsets of each partition, or
-1 where the topic was made anew, or its log cut off, and nobody can tell. `@from` is there in the end of a batch that
has partitions which its beginning does not know: where those begin, so that a batch that is run again is the same.
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
    """Offsets are of the next record: a batch reads from its start up to and without its end."""

    offsets: dict[TopicPartition, int] = field(default_factory=dict)
    topic_ids: dict[str, str] = field(default_factory=dict)
    lost: dict[TopicPartition, int] = field(default_factory=dict)
    # Of the partitions that are new in a batch, in its end.
    begins: dict[TopicPartition, int] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> SourceOffset:
        """Takes also what Spark's own connector wrote, which has no ids."""
        return cls(
            offsets=_flat(value),
            topic_ids=dict(value.get(_IDS, {})),
            lost=_flat(value.get(_LOST, {})),
            begins=_flat(value.get(_FROM, {})),
        )

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = _nested(self.offsets)
        if self.topic_ids:
            found[_IDS] = dict(sorted(self.topic_ids.items()))
        if self.lost:
            found[_LOST] = _nested(self.lost)
        if self.begins:
            found[_FROM] = _nested(self.begins)
        return found

    def of(self, topic: str) -> dict[int, int]:
        """The offsets of one topic by partition."""
        return {one.partition: offset for one, offset in self.offsets.items() if one.topic == topic}


def _flat(value: Mapping[str, Any]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, offsets in value.items()
        if not topic.startswith("@")
        for partition, offset in offsets.items()
    }


def _nested(offsets: Mapping[TopicPartition, int]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for one in sorted(offsets):
        found.setdefault(one.topic, {})[str(one.partition)] = offsets[one]
    return found
