"""How far a table is: the next offset of each partition, stored in the table with the rows.

A snapshot of the table has the offsets in its summary, so a reader of any snapshot knows which records it contains, and
a pipeline that starts knows where to continue. There is no other checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.lake.errors import LakeError

__all__ = ["COMMIT", "OFFSETS", "TOPIC", "TOPIC_ID", "Position"]

TOPIC = "ottla.topic"
TOPIC_ID = "ottla.topic-id"
OFFSETS = "ottla.offsets"
COMMIT = "ottla.commit"
"""The identity of a batch, by which a commit without an answer is recognised."""


@dataclass(frozen=True, slots=True)
class Position:
    """The table contains the records of the topic below these offsets, and no other."""

    topic: str
    topic_id: str = ""
    offsets: Mapping[int, int] = field(default_factory=dict)

    def to_properties(self) -> dict[str, str]:
        offsets = {str(partition): offset for partition, offset in sorted(self.offsets.items())}
        return {
            TOPIC: self.topic,
            TOPIC_ID: self.topic_id,
            OFFSETS: json.dumps(offsets, separators=(",", ":")),
        }

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> Position | None:
        """The position in the properties; None if they have none. Raises LakeError."""
        text = properties.get(OFFSETS)
        if text is None:
            return None
        try:
            offsets = {int(partition): int(offset) for partition, offset in json.loads(text).items()}
        except (ValueError, AttributeError, TypeError):
            raise LakeError(f"The table's property {OFFSETS} is {text!r}, not offsets by partition.") from None
        return cls(properties.get(TOPIC, ""), properties.get(TOPIC_ID, ""), offsets)
