"""Offsets in CSV, as kafka-consumer-groups exports and imports them.

One group: `topic,partition,offset`. Several: `group,topic,partition,offset`. Quotes as CSV has them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from ottla.model.ids import TopicPartition

__all__ = ["read_offsets", "write_offsets"]


def write_offsets(planned: Mapping[str, Mapping[TopicPartition, int]]) -> str:
    target = io.StringIO()
    writer = csv.writer(target, lineterminator="\n")
    for group_id, offsets in planned.items():
        for partition, offset in sorted(offsets.items()):
            row: list[object] = [partition.topic, partition.partition, offset]
            writer.writerow(row if len(planned) == 1 else [group_id, *row])
    return target.getvalue()


def read_offsets(text: str, *, groups: Sequence[str]) -> dict[str, dict[TopicPartition, int]]:
    """Offsets by group; a file without groups applies to the one group of the command line."""
    by_group: dict[str, dict[TopicPartition, int]] = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), start=1):
        cells = [cell.strip() for cell in row]
        if not any(cells):
            continue
        if len(cells) == 3:
            if len(groups) != 1:
                raise ValueError(f"Line {number} names no group, and {len(groups)} groups are to be reset.")
            cells = [groups[0], *cells]
        if len(cells) != 4 or not (cells[2].isdecimal() and cells[3].lstrip("-").isdecimal()):
            raise ValueError(f"Line {number} is not topic,partition,offset or group,topic,partition,offset.")
        group_id, topic, partition, offset = cells
        by_group.setdefault(group_id, {})[TopicPartition(topic, int(partition))] = int(offset)
    return by_group
