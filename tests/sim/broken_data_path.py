"""Nodes with a defect in how they store and replicate records. Each breaks one promise, which a checker must notice."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.broker.apis import produce
from ottla.records.build import set_checksum
from ottla.records.header import read_header
from ottla.replica.isr import IsrKeeper
from ottla.replica.partition import Partition
from ottla.storage.log import PartitionLog
from ottla.storage.producer_state import ProducerState
from ottla.wire.messages.produce import ProduceRequest


def answers_before_replication(patch: pytest.MonkeyPatch) -> None:
    """acks=all is answered as soon as the leader has the record."""

    handle = produce.handle

    def handle_in_haste(request: ProduceRequest, *arguments: Any) -> Any:
        request.acks = 1
        return handle(request, *arguments)

    patch.setattr(produce, "handle", handle_in_haste)


def serves_beyond_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """The leader takes for committed whatever it has itself."""

    def advance(partition: Partition) -> None:
        log = partition.log
        if partition.leader_state is not None and log.log_end_offset > log.high_watermark:
            log.update_high_watermark(log.log_end_offset)
            for parked in (*partition.parked_produces, *partition.parked_fetches):
                partition.parking.wake(parked)

    patch.setattr(Partition, "advance_high_watermark", advance)


def high_watermark_follows_any_follower(patch: pytest.MonkeyPatch) -> None:
    """The high watermark is what the follower that asked last is sure to have written, and some less."""
    advance = Partition.on_follower_fetch

    def on_follower_fetch(partition: Partition, node_id: int, *, fetch_offset: int, **more: Any) -> None:
        advance(partition, node_id, fetch_offset=fetch_offset, **more)
        partition.log.high_watermark = max(0, min(partition.log.high_watermark, fetch_offset - 3))

    patch.setattr(Partition, "on_follower_fetch", on_follower_fetch)


def ignores_sequence_numbers(patch: pytest.MonkeyPatch) -> None:
    """What a producer sends again is written again."""
    patch.setattr(ProducerState, "check", lambda state, header, origin: None)


def follower_stamps_batches_itself(patch: pytest.MonkeyPatch) -> None:
    """A follower writes its own time into what it copies."""
    append = PartitionLog.append_as_follower

    def append_as_follower(log: PartitionLog, buffer: Any, **more: Any) -> Any:
        changed = bytearray(buffer)
        # The last byte of the newest timestamp.
        changed[42] ^= 1
        set_checksum(memoryview(changed)[: read_header(changed).size])
        return append(log, changed, **more)

    patch.setattr(PartitionLog, "append_as_follower", append_as_follower)


def nobody_comes_back_into_sync(patch: pytest.MonkeyPatch) -> None:
    """A leader never asks to let a follower back in."""
    patch.setattr(IsrKeeper, "consider_joining", lambda *_: None)
