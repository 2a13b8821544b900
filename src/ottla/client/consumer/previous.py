"""The user data of Kafka's sticky assignor: the partitions of a member before the rebalance, and their generation.

Members of an eager group give up their partitions before they join: this data has their former partitions.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ottla.client.leaders import by_topic
from ottla.model.ids import TopicPartition

__all__ = ["decode_previous", "encode_previous"]


def encode_previous(partitions: Sequence[TopicPartition], generation: int) -> bytes:
    topics = by_topic(partitions)
    pieces = [struct.pack(">i", len(topics))]
    for name, numbers in topics.items():
        encoded = name.encode()
        pieces.append(struct.pack(f">h{len(encoded)}si{len(numbers)}i", len(encoded), encoded, len(numbers), *numbers))
    return b"".join([*pieces, struct.pack(">i", generation)])


def decode_previous(data: bytes) -> tuple[list[TopicPartition], int]:
    """Partitions and generation. Data of an unknown form counts as none: the assignment is then less sticky."""
    partitions: list[TopicPartition] = []
    try:
        (topics,), at = struct.unpack_from(">i", data), 4
        for _ in range(topics):
            (length,) = struct.unpack_from(">h", data, at)
            name, at = data[at + 2 : at + 2 + length].decode(), at + 2 + length
            (count,) = struct.unpack_from(">i", data, at)
            partitions += [TopicPartition(name, number) for number in struct.unpack_from(f">{count}i", data, at + 4)]
            at += 4 + 4 * count
        # The first version of the format has no generation.
        generation = struct.unpack_from(">i", data, at)[0] if at + 4 <= len(data) else -1
    except (struct.error, UnicodeDecodeError):
        return [], -1
    return partitions, generation
