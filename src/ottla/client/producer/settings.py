"""The settings of a producer, with Kafka's names in snake case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.client.producer.interceptors import ProducerInterceptor
from ottla.client.producer.partitioner import Partitioner
from ottla.records.compression import Codec
from ottla.serdes.protocol import Serializer

__all__ = ["ProducerSettings"]

# Brokers keep the last five batches of a producer in a partition, to recognise duplicates.
IN_FLIGHT_IDEMPOTENT_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerSettings:
    # -1: all in-sync replicas, 1: the leader, 0: no acknowledgement.
    acks: int = -1
    linger_ms: int = 5
    batch_size: int = 16_384
    compression: Codec = Codec.NONE
    compression_level: int | None = None
    # None: on if the other settings allow it. True raises ValueError if they do not.
    idempotent: bool | None = None
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    # Transactions are prepared and completed by a coordinator outside of the cluster, and have no time-out (KIP-939).
    two_phase_commit: bool = False
    delivery_timeout_ms: int = 120_000
    request_timeout_ms: int = 30_000
    retries: int = 2_147_483_647
    # `send` waits this long for metadata and for room in the buffer, in total.
    max_block_ms: int = 60_000
    buffer_bytes: int = 32 * 1024 * 1024
    request_bytes_max: int = 1_048_576
    in_flight_max: int = 5
    partitioner: Partitioner | None = None
    # Without a serializer, keys and values are bytes.
    key_serializer: Serializer[Any] | None = None
    value_serializer: Serializer[Any] | None = None
    # Called with every record before it is partitioned, and with every acknowledgement.
    interceptors: tuple[ProducerInterceptor, ...] = ()
    # The metadata of a topic that got no records for this time is forgotten.
    metadata_idle_max_ms: int = 300_000

    def __post_init__(self) -> None:
        if self.acks not in (-1, 0, 1):
            raise ValueError("acks must be all (-1), 1 or 0")
        shortest = self.linger_ms + self.request_timeout_ms
        if self.delivery_timeout_ms < shortest:
            raise ValueError(
                f"delivery.timeout.ms={self.delivery_timeout_ms} must be at least linger.ms + request.timeout.ms, "
                f"which is {shortest}"
            )
        if self.two_phase_commit and self.transactional_id is None:
            raise ValueError("transaction.two.phase.commit.enable needs a transactional.id")
        if self.transactional_id is not None:
            if self.idempotent is False:
                raise ValueError("a transactional producer is idempotent")
            self._check_sequences("a transactional producer")
        elif self.idempotent:
            self._check_sequences("an idempotent producer")
        if self.uses_sequences and self.in_flight_max > IN_FLIGHT_IDEMPOTENT_MAX:
            raise ValueError(
                f"an idempotent producer has at most {IN_FLIGHT_IDEMPOTENT_MAX} requests in flight, "
                f"not {self.in_flight_max}"
            )

    @property
    def uses_sequences(self) -> bool:
        """True for idempotence, which needs acks=all and retries. Without them it is off, as in Java clients."""
        if self.transactional_id is not None:
            return True
        return self.idempotent is not False and self.acks == -1 and self.retries > 0

    def _check_sequences(self, subject: str) -> None:
        if self.acks != -1:
            raise ValueError(f"{subject} needs acks=all")
        if self.retries < 1:
            raise ValueError(f"{subject} needs retries")
