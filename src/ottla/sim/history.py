"""The history of a run: the answers that clients got. Checkers compare it with the state of the cluster.

Workloads write the history and do not judge it; checkers read it. A record's value contains its producer and its number
in that producer's order, so that a record shows by itself which records must precede it.
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
    """A record, noted when it is sent for the first time."""

    partition: TopicPartition
    producer: str
    number: int
    acks: int
    is_idempotent: bool
    sent_us: int
    # None until the record is acknowledged; -1 if the acknowledgement contained no offset.
    offset: int | None = None
    # The producer's session. Order and freedom from duplicates are guaranteed within a session.
    session: int = 0

    @property
    def value(self) -> bytes:
        return record_value(self.producer, self.number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A committed offset, as the coordinator acknowledged or reported it."""

    group: str
    partition: TopicPartition
    offset: int
    # The times of the request and of the acknowledgement.
    asked_us: int
    acknowledged_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The partitions of a member in one generation (or member epoch) of its group."""

    group: str
    member: str
    generation: int
    partitions: frozenset[TopicPartition]


class Outcome(Enum):
    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"
    # The commit request was not answered. The transaction is committed as a whole or not at all.
    UNKNOWN = "unknown"


@dataclass(slots=True, kw_only=True)
class Transaction:
    """The records of one transaction and its outcome."""

    producer: str
    number: int
    records: list[tuple[TopicPartition, bytes]] = field(default_factory=list)
    outcome: Outcome = Outcome.OPEN


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """A record sent after the end of its transaction, or by a replaced producer. It must never be committed."""

    partition: TopicPartition
    value: bytes
    description: str


@dataclass(slots=True, kw_only=True)
class Copies:
    """A partition whose records are copied to another. `name` is also the group id and the transactional id."""

    name: str
    source: TopicPartition
    target: TopicPartition
    # The committed offset at the end of the run; -1 if no offset was committed.
    committed: int = -1

    def value(self, offset: int) -> bytes:
        return f"{self.name}/{offset}".encode()


@dataclass(slots=True)
class History:
    sent: list[Sent] = field(default_factory=list)
    # The value that the first reader saw, by partition and offset.
    read: dict[TopicPartition, dict[int, bytes]] = field(default_factory=dict)
    commits: list[Commit] = field(default_factory=list)
    # Offsets whose commit request was not answered: each may be committed or not.
    uncertain_commits: list[Commit] = field(default_factory=list)
    # Answers to OffsetFetch requests.
    fetched_commits: list[Commit] = field(default_factory=list)
    assignments: list[Assignment] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    late: list[Late] = field(default_factory=list)
    copies: list[Copies] = field(default_factory=list)
    # The offsets that a consumer without a group, or all members of a group together, received.
    consumed: dict[tuple[str, TopicPartition], list[int]] = field(default_factory=dict)
    # Consumers without a group by name; True if they read committed records only.
    readers: dict[str, bool] = field(default_factory=dict)
    # Every record that a `read_committed` consumer received.
    read_committed: list[tuple[TopicPartition, bytes]] = field(default_factory=list)
    # Violations that a workload saw in its own answers, as (rule, sentence). The scenario turns them into findings.
    violations: list[tuple[str, str]] = field(default_factory=list)
    # The highest high watermark in answers to fetches, by (partition, reader, run of the broker, leader epoch).
    high_watermarks: dict[tuple[TopicPartition, str, str, int], int] = field(default_factory=dict)

    def report_violation(self, rule: str, sentence: str) -> None:
        if len(self.violations) < 100:
            self.violations.append((rule, sentence))

    def observe_record(self, partition: TopicPartition, offset: int, value: bytes) -> None:
        """A reader received this value. Every other reader must get the same value at this offset."""
        values = self.read.setdefault(partition, {})
        earlier = values.setdefault(offset, value)
        if earlier != value:
            self.report_violation("stable reads", f"{partition} offset {offset} was {earlier!r} and is now {value!r}")

    def observe_high_watermark(
        self, partition: TopicPartition, *, reader: str, broker: str, epoch: int, high_watermark: int
    ) -> None:
        """The high watermark must not decrease within one leader epoch. Every reader has one request in flight."""
        key = (partition, reader, broker, epoch)
        earlier = self.high_watermarks.get(key, -1)
        if high_watermark < earlier:
            self.report_violation(
                "high watermark", f"{partition} led by {broker}, epoch {epoch}: {earlier} went back to {high_watermark}"
            )
        self.high_watermarks[key] = max(earlier, high_watermark)
