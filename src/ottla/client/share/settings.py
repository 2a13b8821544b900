"""The settings of a share consumer: those of a consumer, and two of its own."""

from __future__ import annotations

from dataclasses import dataclass

from ottla.client.consumer.settings import ConsumerSettings

__all__ = ["ShareSettings"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSettings(ConsumerSettings):
    # True: the application acknowledges every record. False: the next poll accepts the records of the last one.
    explicit: bool = False
    # True: a poll never acquires more than max.poll.records (KIP-1206). False: it may acquire whole batches.
    limits_records: bool = False
