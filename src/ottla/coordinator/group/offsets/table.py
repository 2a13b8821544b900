"""The committed offsets of a shard's groups, and those that wait for the end of a transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ottla.model.ids import TopicPartition, Uuid

__all__ = ["NO_EXPIRY", "NO_LEADER_EPOCH", "CommittedOffset", "OffsetTable"]

NO_LEADER_EPOCH = -1
NO_EXPIRY = -1


class CommittedOffset:
    """Where a group stands in one partition."""

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
        # Not by keyword alone: a commit makes one for each of its partitions, and names would double what that costs.
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.metadata = metadata
        self.commit_timestamp_ms = commit_timestamp_ms
        # Asked for by the client: only versions 2 to 4 of OffsetCommit could.
        self.expire_timestamp_ms = expire_timestamp_ms
        self.topic_id = topic_id
        # Which of all offsets of the shard it is, in the order of the log.
        self.place = 0

    def __repr__(self) -> str:
        return f"CommittedOffset({self.offset}, metadata={self.metadata!r})"


GroupOffsets = dict[TopicPartition, CommittedOffset]


class OffsetTable:
    """By group, then by partition. Written by replay alone."""

    __slots__ = ("_by_group", "_pending", "_place")

    def __init__(self) -> None:
        self._place = 0
        self._by_group: dict[str, GroupOffsets] = {}
        # By producer id: what its open transaction has committed so far (KIP-98).
        self._pending: dict[int, dict[str, GroupOffsets]] = {}

    def of_group(self, group_id: str) -> GroupOffsets:
        """Not to be changed by the caller; empty when there are none."""
        return self._by_group.get(group_id) or {}

    def groups(self) -> Iterator[str]:
        """Ids of groups that have offsets, pending ones included."""
        seen = dict.fromkeys(self._by_group)
        for transaction in self._pending.values():
            seen.update(dict.fromkeys(transaction))
        return iter(seen)

    def get(self, group_id: str, partition: TopicPartition) -> CommittedOffset | None:
        offsets = self._by_group.get(group_id)
        return None if offsets is None else offsets.get(partition)

    def pending_partitions(self, group_id: str) -> set[TopicPartition]:
        return {partition for transaction in self._pending.values() for partition in transaction.get(group_id, ())}

    # Replay.

    def put(
        self, group_id: str, offsets: Iterable[tuple[TopicPartition, CommittedOffset]], producer_id: int = -1
    ) -> None:
        by_group = self._by_group if producer_id < 0 else self._pending.setdefault(producer_id, {})
        by_partition = by_group.get(group_id)
        if by_partition is None:
            by_partition = by_group[group_id] = {}
        place = self._place
        for partition, committed in offsets:
            place += 1
            committed.place = place
            by_partition[partition] = committed
        self._place = place

    def remove(self, group_id: str, partition: TopicPartition) -> None:
        """Pending offsets go too: the deletion came after them."""
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
                known = by_partition.get(partition)
                # What was committed outside the transaction after it is younger: compaction would keep that one too.
                if known is None or known.place < committed.place:
                    by_partition[partition] = committed


def _remove(by_group: dict[str, GroupOffsets], group_id: str, partition: TopicPartition) -> None:
    offsets = by_group.get(group_id)
    if offsets is not None and offsets.pop(partition, None) is not None and not offsets:
        del by_group[group_id]
