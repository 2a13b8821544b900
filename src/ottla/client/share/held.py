"""The records that the application holds, and its decisions about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ottla.client.errors import ClientError
from ottla.client.share.acknowledgements import Acknowledge, Decisions
from ottla.client.share.records import SharedRecord
from ottla.model.errors import KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["HeldRecords", "OnAcknowledged"]

# Gets a partition, the offsets that were acknowledged, and the error of the broker.
OnAcknowledged = Callable[[TopicPartition, list[int], KafkaError | None], object]

_Position = tuple[int, TopicPartition]


class HeldRecords:
    """Records are held from their delivery until an acknowledgement of them is taken for a request.

    Acknowledgements belong to the share session that acquired the record, which is that of one broker.
    """

    def __init__(self) -> None:
        # Undecided records by broker and partition, and decisions that are not taken yet.
        self._open: dict[_Position, dict[int, SharedRecord]] = {}
        self._decided: dict[_Position, dict[int, int]] = {}
        self._brokers: dict[tuple[str, int, int], int] = {}
        # Records of the decisions that the application has made: it may change them, and keeps renewed records.
        self._changeable: dict[_Position, dict[int, SharedRecord]] = {}
        # Delivered records that a broker has taken back before the application decided about them.
        self._taken_back: set[tuple[str, int, int]] = set()

    def deliver(self, node_id: int, records: Iterable[SharedRecord]) -> None:
        for record in records:
            position = (node_id, TopicPartition(record.topic, record.partition))
            self._open.setdefault(position, {})[record.offset] = record
            self._brokers[record.topic, record.partition, record.offset] = node_id
            self._taken_back.discard((record.topic, record.partition, record.offset))

    def decide(self, node_id: int, partition: TopicPartition, decisions: dict[int, int]) -> None:
        """Decisions about offsets that the application never sees."""
        if decisions:
            self._decided.setdefault((node_id, partition), {}).update(decisions)

    @property
    def undecided(self) -> int:
        return sum(map(len, self._open.values()))

    def acknowledge(self, topic: str, partition: int, offset: int, kind: Acknowledge) -> None:
        """Decides about a delivered record; the last decision before the next request counts."""
        node_id = self._brokers.get((topic, partition, offset))
        position = (-1 if node_id is None else node_id, TopicPartition(topic, partition))
        record = self._open.get(position, {}).pop(offset, None) or self._changeable.get(position, {}).get(offset)
        if record is None:
            raise ClientError(
                f"{topic}-{partition}: the record at offset {offset} is not held by this consumer: it was acknowledged "
                "before, or not delivered by the last poll."
            )
        self._decided.setdefault(position, {})[offset] = int(kind)
        self._changeable.setdefault(position, {})[offset] = record

    def accept(self, record: SharedRecord) -> None:
        """Accepts a record, if it is still undecided."""
        node_id = self._brokers.get((record.topic, record.partition, record.offset), -1)
        if record.offset in self._open.get((node_id, TopicPartition(record.topic, record.partition)), {}):
            self.acknowledge(record.topic, record.partition, record.offset, Acknowledge.ACCEPT)

    def accept_all(self) -> None:
        for position, records in self._open.items():
            self._decided.setdefault(position, {}).update(dict.fromkeys(records, int(Acknowledge.ACCEPT)))
        self._open.clear()

    def take(self) -> dict[int, Decisions]:
        """The decisions since the last call, by broker. Renewed records are open again."""
        by_broker: dict[int, Decisions] = {}
        for (node_id, partition), decisions in self._decided.items():
            by_broker.setdefault(node_id, {})[partition] = decisions
            for offset, kind in decisions.items():
                if kind != Acknowledge.RENEW:
                    self._brokers.pop((*partition, offset), None)
        for node_id, partition, offset in self.renewals:
            position = (node_id, partition)
            self._open.setdefault(position, {})[offset] = self._changeable[position][offset]
        self._decided.clear()
        self._changeable.clear()
        return by_broker

    @property
    def has_renewals(self) -> bool:
        return bool(self.renewals)

    @property
    def renewals(self) -> list[tuple[int, TopicPartition, int]]:
        """Broker, partition and offset of the records whose locks the next request renews."""
        return [
            (*position, offset)
            for position, records in self._changeable.items()
            for offset in records
            if self._decided[position][offset] == Acknowledge.RENEW
        ]

    def is_taken_back(self, topic: str, partition: int, offset: int) -> bool:
        """True if the broker has released a record that this consumer has delivered and not decided about."""
        return (topic, partition, offset) in self._taken_back

    def begin_poll(self) -> None:
        """The application is through with the records of the last poll."""
        self._taken_back.clear()

    def lose(self, node_id: int, partition: TopicPartition, offset: int) -> None:
        """The lock of an undecided record has expired."""
        if self._open.get((node_id, partition), {}).pop(offset, None) is not None:
            self._brokers.pop((*partition, offset), None)
            self._taken_back.add((*partition, offset))

    @property
    def records(self) -> list[SharedRecord]:
        """The undecided records, in order."""
        return [record for records in self._open.values() for _, record in sorted(records.items())]

    def partitions_of(self, node_id: int) -> set[TopicPartition]:
        """Partitions with records that a broker has handed out, which must stay in its session."""
        return {
            partition
            for (node, partition), records in (*self._open.items(), *self._decided.items())
            if node == node_id and records
        }

    def drop(self, node_id: int) -> None:
        """The broker has released the records: other consumers may get them."""
        for kept in (self._open, self._decided, self._changeable):
            for position in [position for position in kept if position[0] == node_id]:
                for offset in kept.pop(position):
                    key = (*position[1], offset)
                    if self._brokers.pop(key, None) is not None:
                        self._taken_back.add(key)
