"""Bounds that no configuration changes, with unit, reason and where they come from.

Bounds that a key sets (largest request, largest batch) are in `ottla.model.config`.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "BATCH_SIZE_BYTES_MAX",
    "CLIENT_ID_LENGTH_MAX",
    "CONFIG_VALUE_LENGTH_MAX",
    "OFFSET_MAX",
    "PARTITIONS_PER_TOPIC_MAX",
    "PRODUCER_BATCHES_KEPT",
    "REQUEST_HEADER_SIZE_BYTES_MIN",
    "TOPIC_NAME_LENGTH_MAX",
]

# A topic's directory is called <name>-<partition>, or <name>-<partition>.<uuid>-delete while it goes; file systems
# allow 255 bytes. The bound is Kafka's.
TOPIC_NAME_LENGTH_MAX: Final = 249

# Kafka's own bound on one create or extend request (KIP-1073 keeps the controller's batches small).
PARTITIONS_PER_TOPIC_MAX: Final = 10_000

# The protocol's lengths are signed 32-bit numbers.
BATCH_SIZE_BYTES_MAX: Final = (1 << 31) - 1
OFFSET_MAX: Final = (1 << 63) - 1

# A string of the protocol has a signed 16-bit length.
CLIENT_ID_LENGTH_MAX: Final = (1 << 15) - 1
CONFIG_VALUE_LENGTH_MAX: Final = (1 << 15) - 1

# api key, api version, correlation id.
REQUEST_HEADER_SIZE_BYTES_MIN: Final = 8

# Batches per producer and partition that a duplicate can be recognised by; the client sends no more than five at once.
PRODUCER_BATCHES_KEPT: Final = 5

assert TOPIC_NAME_LENGTH_MAX + len("-99999") <= 255, "a partition's directory has to fit into a file name"
