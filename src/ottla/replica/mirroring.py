"""Appends of a mirror: batches of another cluster, at their offsets in that cluster.

A topic with `ottla.mirror.name` is a copy of a topic of another cluster. Only the mirror of that name writes to it, and
its batches keep their offsets, their producers and their transaction markers. So a group continues here at the offset
at which it stopped there. Batches follow each other without a gap: for a gap in the source (compaction, retention), the
mirror sends an empty batch. The first batch of an empty log may begin at any offset.

A batch below the end of the log has already been appended. A mirror that has crashed therefore continues at the end of
this log, and stores no other progress.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.mirrors import MIRROR_CLIENT_ID_PREFIX
from ottla.records.errors import CorruptRecords, InvalidRecords
from ottla.records.header import MAGIC, stamp
from ottla.records.iterate import Batch, iterate_batches, verify_checksum
from ottla.replica import refusals
from ottla.replica.partition import ACKS_ALL
from ottla.storage.log import AppendResult

if TYPE_CHECKING:
    from ottla.replica.partition import Partition

__all__ = ["BATCHES_MAX", "append_mirrored", "check_mirror", "is_mirror"]

BATCHES_MAX = 1_000
"""Batches of one partition in a request: the loop handles them in about 5 ms."""


def is_mirror(client_id: str | None) -> bool:
    return client_id is not None and client_id.startswith(MIRROR_CLIENT_ID_PREFIX)


def check_mirror(mirror_name: str, client_id: str | None) -> None:
    """Raises unless the client is the mirror that writes to the topic. Ordinary topics have an empty mirror name."""
    if not mirror_name:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "The topic has no ottla.mirror.name: mirrors may not write to it.")
    if client_id != MIRROR_CLIENT_ID_PREFIX + mirror_name:
        raise KafkaError(
            ErrorCode.POLICY_VIOLATION,
            f"The topic is written by the mirror {mirror_name!r} alone, until its ottla.mirror.name is removed.",
        )


def append_mirrored(partition: Partition, records: memoryview, *, required_acks: int, now_ms: int) -> AppendResult:
    """Appends the batches that the log does not have yet. Raises KafkaError before anything is written."""
    state = partition.check_leader()
    if required_acks == ACKS_ALL and state.replica_count > 1:
        partition.check_enough_replicas(state)
    log = partition.log
    batches = _read(records)
    missing = _missing(partition, batches)
    if not missing:
        last_offset = batches[-1].header.next_offset - 1
        # Like any repeated batch, it is acknowledged no earlier than the first batch.
        is_flushed = log.log_end_offset - log.recovery_point < log.config.flush_messages
        flushed = None if is_flushed else log.flush()
        return AppendResult(last_offset, last_offset, -1, log.log_start_offset, True, flushed)
    first_offset = missing[0].header.base_offset
    if first_offset > log.log_end_offset:
        if log.log_end_offset > 0:
            raise refusals.gap_of_mirror(partition, first_offset)
        log.truncate_fully_and_start_at(first_offset)
    for batch in missing:
        header = batch.header
        header.leader_epoch = state.epoch
        stamp(records, batch.position, header.base_offset, header.batch_length, state.epoch)
    headers = [batch.header for batch in missing]
    return partition.append_mirrored(records[missing[0].position :], headers, now_ms=now_ms)


def _missing(partition: Partition, batches: list[Batch]) -> list[Batch]:
    """The batches behind the end of the log."""
    end_offset = partition.log.log_end_offset
    missing = [batch for batch in batches if batch.header.base_offset >= end_offset]
    if len(missing) < len(batches):
        header = batches[-len(missing) - 1].header
        if header.next_offset > end_offset:
            raise InvalidRecords(
                f"{partition} ends at {end_offset}, within the batch from {header.base_offset} to "
                f"{header.next_offset - 1}: the logs have diverged."
            )
    return missing


def _read(records: memoryview) -> list[Batch]:
    """The batches, each intact and behind the previous one."""
    batches: list[Batch] = []
    position = 0
    for batch in iterate_batches(records):
        if len(batches) == BATCHES_MAX:
            raise InvalidRecords(f"A mirror sends at most {BATCHES_MAX} batches of a partition at once.")
        header = batch.header
        if header.magic != MAGIC:
            raise InvalidRecords(f"A batch of a mirror has the old format {header.magic}.")
        if batches and header.base_offset != batches[-1].header.next_offset:
            raise InvalidRecords(
                f"A batch begins at {header.base_offset}, behind one that ends before {batches[-1].header.next_offset}."
            )
        if header.base_offset < 0 or header.last_offset_delta < 0:
            raise InvalidRecords(f"A batch has no offsets of its own: it begins at {header.base_offset}.")
        if not verify_checksum(batch.view, header):
            raise CorruptRecords(f"The batch at {header.base_offset} has a wrong checksum.")
        batches.append(batch)
        position += header.size
    if not batches or position != len(records):
        raise InvalidRecords("A request of a mirror ends within a batch.")
    return batches
