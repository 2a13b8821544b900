"""Kafka's checkpoint files: a version line (0), a count line, and one line of fields per entry.

`recovery-point-offset-checkpoint`, `replication-offset-checkpoint` and `log-start-offset-checkpoint` hold an offset
for each partition of a log directory; `leader-epoch-checkpoint` in each partition's directory holds epochs. They are
replaced as a whole, so a reader finds the old one or the new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ottla.model.ids import TopicPartition
from ottla.model.ports import Files

__all__ = ["CorruptCheckpoint", "format_lines", "parse_lines", "read_offsets", "write_offsets"]

_VERSION = "0"


class CorruptCheckpoint(Exception):
    """The file is not a checkpoint."""


def format_lines(lines: Iterable[str]) -> bytes:
    body = list(lines)
    return "\n".join([_VERSION, str(len(body)), *body, ""]).encode()


def parse_lines(data: bytes, *, fields: int) -> list[list[str]]:
    """The fields of every entry. Raises CorruptCheckpoint if the file is incomplete."""
    try:
        lines = data.decode().split("\n")
    except UnicodeDecodeError:
        raise CorruptCheckpoint("it is not text") from None
    if lines and not lines[-1]:
        lines.pop()
    if len(lines) < 2 or lines[0].strip() != _VERSION or not lines[1].strip().isdecimal():
        raise CorruptCheckpoint("it does not begin with version 0 and a count")
    entries = [line.split() for line in lines[2:]]
    if len(entries) != int(lines[1]) or any(len(entry) != fields for entry in entries):
        raise CorruptCheckpoint(f"it should have {lines[1].strip()} entries of {fields} fields")
    return entries


def read_offsets(files: Files, path: str) -> dict[TopicPartition, int]:
    """The offset of each partition; empty if the file is missing."""
    if not files.exists(path):
        return {}
    try:
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partition, offset in parse_lines(files.read_bytes(path), fields=3)
        }
    except ValueError:
        raise CorruptCheckpoint("a partition or offset is not a number") from None


def write_offsets(files: Files, path: str, offsets: Mapping[TopicPartition, int], *, durable: bool = True) -> None:
    lines = (f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items())
    files.write_atomically(path, format_lines(lines), durable=durable)
