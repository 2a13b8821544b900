"""Offsets for timestamps, and for special timestamps such as "latest".

A consumer gets only offsets that it can read: up to the high watermark, or up to the last stable offset if it reads
committed transactions. A follower or a debugging client sees the whole log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.replica.partition import Partition

if TYPE_CHECKING:
    from ottla.storage.time_index import TimestampOffset

__all__ = [
    "EARLIEST",
    "EARLIEST_LOCAL",
    "EARLIEST_PENDING_UPLOAD",
    "FoundOffset",
    "LATEST",
    "LATEST_TIERED",
    "MAX_TIMESTAMP",
    "NOTHING_FOUND",
    "find_offset",
]

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

_CONSUMER = -1
_DEBUGGING = -2
_READ_COMMITTED = 1


class FoundOffset(NamedTuple):
    offset: int
    timestamp: int = -1
    leader_epoch: int = -1


NOTHING_FOUND = FoundOffset(-1)


def find_offset(
    partition: Partition, timestamp: int, *, current_leader_epoch: int, isolation_level: int, replica_id: int
) -> FoundOffset | Deferred[FoundOffset]:
    """Looks up an offset; `NOTHING_FOUND` if no record is that recent. Raises KafkaError.

    Special timestamps are answered at once, others after a worker has read batches.
    """
    _check(partition, current_leader_epoch, replica_id)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        # Without tiered storage the local log is the whole log.
        start_offset = partition.log.log_start_offset
        return FoundOffset(start_offset, -1, partition.epoch_of(start_offset))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return NOTHING_FOUND
    if timestamp == LATEST:
        _check_high_watermark_known(partition, replica_id)
        return FoundOffset(_end_offset(partition, isolation_level, replica_id), -1, partition.leader_epoch)

    def on_searched(record: TimestampOffset | None) -> FoundOffset:
        # Leadership may have changed meanwhile.
        _check(partition, current_leader_epoch, replica_id)
        if record is None:
            return NOTHING_FOUND
        if record.offset < _end_offset(partition, isolation_level, replica_id):
            return FoundOffset(record.offset, record.timestamp, partition.epoch_of(record.offset))
        _check_high_watermark_known(partition, replica_id)
        return NOTHING_FOUND

    log = partition.log
    searched = log.offset_of_max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    return searched.then(on_searched)


def _check(partition: Partition, current_leader_epoch: int, replica_id: int) -> None:
    if replica_id == _DEBUGGING:
        partition.check_replica(current_leader_epoch)
    else:
        partition.check_leader(current_leader_epoch)


def _end_offset(partition: Partition, isolation_level: int, replica_id: int) -> int:
    if replica_id != _CONSUMER:
        return partition.log.log_end_offset
    return partition.last_stable_offset if isolation_level == _READ_COMMITTED else partition.high_watermark


def _check_high_watermark_known(partition: Partition, replica_id: int) -> None:
    """KIP-207: right after an election the high watermark may lag, and offsets could appear to go backwards."""
    state = partition.leader_state
    if replica_id == _CONSUMER and state is not None and state.epoch_start_offset > partition.high_watermark:
        raise KafkaError(
            ErrorCode.OFFSET_NOT_AVAILABLE,
            f"The new leader of {partition} does not know its high watermark yet.",
        )
