"""The report of a failover or failback, for the command line."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["RecordRange", "SwitchReport"]


@dataclass(frozen=True, slots=True)
class RecordRange:
    """Offsets of a partition, the end not included. Markers and aborted records have offsets, too."""

    topic: str
    partition: int
    first_offset: int
    end_offset: int

    @property
    def offsets(self) -> int:
        return self.end_offset - self.first_offset


@dataclass(slots=True)
class SwitchReport:
    flow: str
    phase: str
    source_answers: bool = True
    not_copied: list[RecordRange] = field(default_factory=list)
    """Records of the old side that the other side does not have."""
    groups: dict[str, int] = field(default_factory=dict)
    """Groups that continue on the other side, with the number of their partitions."""
    busy_groups: list[str] = field(default_factory=list)
    """Groups that have members where they should continue: their offsets were left alone."""
    repeating_groups: list[str] = field(default_factory=list)
    """Groups that have not read records that the old side had left behind: they read some other records twice."""
    new_topics: list[str] = field(default_factory=list)
    """Topics that the other side alone has, by the names that they get at the old side in a failback."""
    what_to_do: list[str] = field(default_factory=list)
