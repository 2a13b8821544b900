"""What the doctor reads from a node's metrics endpoint: the damaged segments that the node knows of."""

from __future__ import annotations

import asyncio
import re
from typing import NamedTuple

__all__ = ["DamagedSegmentMetric", "parse_damaged_segments", "read_damaged_segments"]

TIMEOUT_SECONDS = 3.0

_DAMAGED = re.compile(r"^ottla_log_damaged_segment\{(?P<labels>[^}]*)\} 1", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')


class DamagedSegmentMetric(NamedTuple):
    topic: str
    partition: int
    base_offset: int


async def read_damaged_segments(host: str, port: int) -> list[DamagedSegmentMetric]:
    """Raises OSError if the endpoint cannot be read."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        reader, writer = await asyncio.open_connection(host.strip("[]"), port)
        try:
            writer.write(f"GET /metrics HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
            answer = await reader.read(-1)
        finally:
            writer.close()
    return parse_damaged_segments(answer.decode("utf-8", "replace"))


def parse_damaged_segments(text: str) -> list[DamagedSegmentMetric]:
    segments = []
    for match in _DAMAGED.finditer(text):
        labels = dict(_LABEL.findall(match["labels"]))
        segments.append(DamagedSegmentMetric(labels["topic"], int(labels["partition"]), int(labels["offset"])))
    return segments
