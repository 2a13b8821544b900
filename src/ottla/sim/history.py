"""What the clients of a simulation were told: the evidence that checkers hold against the cluster.

Workloads write it and decide nothing; checkers read it. A value names its producer and its place in that producer's
order, so that the record alone tells what ought to be around it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from ottla.model.ids import TopicPartition

__all__ = ["Assignment", "Commit", "Copies", "History", "Late", "Outcome", "Sent", "Transaction", "record_value"]


def record_value(producer: str, number: int) -> bytes:
    return f"{producer}/{number}".encode()


@dataclass(slots=True, kw_only=True)
class Sent:
    """One record, from the moment it was first sent."""

    partition: TopicPartition
    producer: str
    number: int
    acks: int
    is_idempotent: bool
    sent_us: int
    # None until an answer said that it is written, and where; -1 where the answer knew no offset.
    offset: int | None = None
    # The producer's session: order and freedom from duplicates are promised within one.
    session: int = 0

    @property
    def value(self) -> bytes:
        return record_value(self.producer, self.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """An offset that the coordinator said is committed."""

    group: str
    partition: TopicPartition
    offset: int
    # When it was asked for and when it was acknowledged.
    asked_us: int
    acknowledged_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What a member was given in one generation (or member epoch) of its group."""

    group: str
    member: str
    generation: int
    partitions: frozenset[TopicPartition]


class Outcome(Enum):
    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    # A commit was asked for, and nobody answered: all or nothing.
    UNKNOWN = "unknown"


@dataclass(slots=True, kw_only=True)
class Transaction:
    """What a transactional producer has written in one transaction, and how it ended."""

    producer: str
    number: int
    records: list[tuple[TopicPartition, bytes]] = field(default_factory=list)
    outcome: Outcome = Outcome.OPEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """A record that was sent when its transaction had ended, or its producer was replaced: nobody may ever read it."""

    partition: TopicPartition
    value: bytes
    what: str


@dataclass(slots=True, kw_only=True)
class Copies:
    """Records of one partition that are copied to another, and how far; its name is the group's and the producer's."""

    name: str
    source: TopicPartition
    target: TopicPartition
    # The committed offset when all was over; -1 when none was ever committed.
    committed: int = -1

    def value(self, offset: int) -> bytes:
        return f"{self.name}/{offset}".encode()


@dataclass(slots=True)
class History:
    sent: list[Sent] = field(default_factory=list)
    # What any reader saw at an offset, and the first to see it: (value, producer's id, leader epoch of its batch).
    read: dict[TopicPartition, dict[int, bytes]] = field(default_factory=dict)
    commits: list[Commit] = field(default_factory=list)
    # Offsets that were asked to be committed and never answered: they may or may not hold.
    uncertain_commits: list[Commit] = field(default_factory=list)
    # Offsets that the coordinator told a reader: (group, partition, offset, when asked, when told).
    fetched_commits: list[Commit] = field(default_factory=list)
    assignments: list[Assignment] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    late: list[Late] = field(default_factory=list)
    copies: list[Copies] = field(default_factory=list)
    # Everything that readers of committed transactions were shown.
    read_committed: list[tuple[TopicPartition, bytes]] = field(default_factory=list)
    # Violations that a workload saw with its own eyes; a checker turns them into findings.
    contradictions: list[tuple[str, str]] = field(default_factory=list)
    # High watermarks as fetches told them: (partition, reader, broker's run, leader epoch) -> the highest.
    high_watermarks: dict[tuple[TopicPartition, str, str, int], int] = field(default_factory=dict)

    def contradict(self, rule: str, sentence: str) -> None:
        if len(self.contradictions) < 100:
            self.contradictions.append((rule, sentence))

    def saw(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        """A reader saw a value at an offset: whoever read it before must have seen the same."""
        seen = self.read.setdefault(partition, {})
        before = seen.setdefault(offset, value)
        if before != value:
            self.contradict("stable reads", f"{partition} offset {offset} was {before!r} and is now {value!r}")

    def saw_high_watermark(
        self, partition: TopicPartition, *, reader: str, broker: str, epoch: int, high_watermark: int
    ) -> None:
        """Within one leadership the high watermark may only grow; each reader asks once at a time."""
        key = (partition, reader, broker, epoch)
        before = self.high_watermarks.get(key, -1)
        if high_watermark < before:
            self.contradict(
                "high watermark", f"{partition} led by {broker}, epoch {epoch}: {before} went back to {high_watermark}"
            )
        self.high_watermarks[key] = max(before, high_watermark)
