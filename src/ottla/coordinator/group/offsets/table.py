"""The committed offsets of a shard's groups, and the pending offsets of open transactions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ottla.model.ids import TopicPartition, Uuid

__all__ = ["NO_EXPIRY", "NO_LEADER_EPOCH", "CommittedOffset", "OffsetTable", "OffsetsOfTopic"]

NO_LEADER_EPOCH = -1
NO_EXPIRY = -1


class CommittedOffset:
    """A group's offset in one partition."""

    __slots__ = (
        "commit_timestamp_ms",
        "expire_timestamp_ms",
        "leader_epoch",
        "metadata",
        "offset",
        "place",
        "topic_id",
    )

    def __init__(
        self,
        offset: int,
        leader_epoch: int = NO_LEADER_EPOCH,
        metadata: str = "",
        commit_timestamp_ms: int = 0,
        expire_timestamp_ms: int = NO_EXPIRY,
        topic_id: Uuid = Uuid.ZERO,
    ) -> None:
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.metadata = metadata
        self.commit_timestamp_ms = commit_timestamp_ms
        # Set by clients with versions 2 to 4 of OffsetCommit only.
        self.expire_timestamp_ms = expire_timestamp_ms
        self.topic_id = topic_id
        # The number of the commit in the shard, in the order of the log.
        self.place = 0

    def at(self, partition: int) -> CommittedOffset:  # noqa: ARG002
        return self

    def __repr__(self) -> str:
        return f"CommittedOffset({self.offset}, metadata={self.metadata!r})"


class OffsetsOfTopic:
    """Offsets of one topic that were committed together, by columns: an object for each would cost most of a commit.

    It stays in memory until every partition has a newer offset. The caller bounds the number of partitions.
    """

    __slots__ = (
        "commit_timestamp_ms",
        "expire_timestamp_ms",
        "leader_epochs",
        "metadata",
        "offsets",
        "place",
        "places",
        "topic_id",
    )

    def __init__(
        self,
        places: Mapping[int, int],
        offsets: Sequence[int],
        leader_epochs: Sequence[int],
        metadata: Sequence[str] | None,
        commit_timestamp_ms: int,
        expire_timestamp_ms: int,
        topic_id: Uuid,
    ) -> None:
        # The place in the columns, by partition.
        self.places = places
        self.offsets = offsets
        self.leader_epochs = leader_epochs
        # None where all are empty.
        self.metadata = metadata
        self.commit_timestamp_ms = commit_timestamp_ms
        self.expire_timestamp_ms = expire_timestamp_ms
        self.topic_id = topic_id
        self.place = 0

    def at(self, partition: int) -> CommittedOffset:
        place = self.places[partition]
        return CommittedOffset(
            self.offsets[place],
            leader_epoch=self.leader_epochs[place],
            metadata="" if self.metadata is None else self.metadata[place],
            commit_timestamp_ms=self.commit_timestamp_ms,
            expire_timestamp_ms=self.expire_timestamp_ms,
            topic_id=self.topic_id,
        )


# The offset of the partition, or the offsets that it was committed with.
GroupOffsets = dict[TopicPartition, CommittedOffset | OffsetsOfTopic]


class OffsetTable:
    """Committed offsets by group, then by partition. Only replay writes them."""

    __slots__ = ("_by_group", "_pending", "_place")

    def __init__(self) -> None:
        self._place = 0
        self._by_group: dict[str, GroupOffsets] = {}
        # The offsets of a producer's open transaction (KIP-98), by producer id.
        self._pending: dict[int, dict[str, GroupOffsets]] = {}

    def of_group(self, group_id: str) -> dict[TopicPartition, CommittedOffset]:
        """Empty when there are none."""
        offsets = self._by_group.get(group_id) or {}
        return {partition: committed.at(partition.partition) for partition, committed in offsets.items()}

    def count_of_group(self, group_id: str) -> int:
        return len(self._by_group.get(group_id) or ())

    def groups(self) -> Iterator[str]:
        """Ids of groups that have committed or pending offsets."""
        group_ids = dict.fromkeys(self._by_group)
        for transaction in self._pending.values():
            group_ids.update(dict.fromkeys(transaction))
        return iter(group_ids)

    def get(self, group_id: str, partition: TopicPartition) -> CommittedOffset | None:
        committed = (self._by_group.get(group_id) or {}).get(partition)
        return None if committed is None else committed.at(partition.partition)

    def pending_partitions(self, group_id: str) -> set[TopicPartition]:
        return {partition for transaction in self._pending.values() for partition in transaction.get(group_id, ())}

    def pending_topic_ids(self, group_id: str) -> Iterator[tuple[TopicPartition, Uuid]]:
        """The partitions with pending offsets, with the topic id of each offset. Transactions may share partitions."""
        for transaction in self._pending.values():
            for partition, committed in (transaction.get(group_id) or {}).items():
                yield partition, committed.topic_id

    # Replay.

    def put(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        committed: CommittedOffset | OffsetsOfTopic,
        producer_id: int = -1,
    ) -> None:
        """Stores an offset, or the offsets that were committed together."""
        by_group = self._by_group if producer_id < 0 else self._pending.setdefault(producer_id, {})
        by_partition = by_group.get(group_id)
        if by_partition is None:
            by_partition = by_group[group_id] = {}
        self._place = committed.place = self._place + 1
        for partition in partitions:
            by_partition[partition] = committed

    def remove(self, group_id: str, partition: TopicPartition) -> None:
        """Removes the pending offsets too: they were committed before the deletion."""
        _remove(self._by_group, group_id, partition)
        for producer_id, transaction in list(self._pending.items()):
            _remove(transaction, group_id, partition)
            if not transaction:
                del self._pending[producer_id]

    def end_transaction(self, producer_id: int, *, is_commit: bool) -> None:
        transaction = self._pending.pop(producer_id, None)
        if transaction is None or not is_commit:
            return
        for group_id, offsets in transaction.items():
            by_partition = self._by_group.setdefault(group_id, {})
            for partition, committed in offsets.items():
                previous = by_partition.get(partition)
                # An offset that was committed later outside the transaction stays, as it does after compaction.
                if previous is None or previous.place < committed.place:
                    by_partition[partition] = committed


def _remove(by_group: dict[str, GroupOffsets], group_id: str, partition: TopicPartition) -> None:
    offsets = by_group.get(group_id)
    if offsets is not None and offsets.pop(partition, None) is not None and not offsets:
        del by_group[group_id]
