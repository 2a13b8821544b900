"""The new offsets of a group that is reset: every method of kafka-consumer-groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.cli.logic.offset_times import parse_datetime, parse_duration
from ottla.model.ids import TopicPartition

__all__ = ["Reset", "chosen_reset", "clamp", "targets"]

Offsets = Mapping[TopicPartition, int]


class Reset(NamedTuple):
    """One method and its argument."""

    method: str
    number: int = 0
    text: str = ""

    @property
    def file(self) -> str:
        return self.text if self.method == "file" else ""

    def time(self, *, now_ms: int) -> int | None:
        """The timestamp to look up, for methods by time."""
        if self.method == "datetime":
            return parse_datetime(self.text)
        if self.method == "duration":
            return now_ms - parse_duration(self.text)
        return None


def chosen_reset(
    *,
    to_earliest: bool = False,
    to_latest: bool = False,
    to_current: bool = False,
    to_offset: int | None = None,
    shift_by: int | None = None,
    to_datetime: str | None = None,
    by_duration: str | None = None,
    from_file: str | None = None,
) -> Reset:
    """Exactly one method; its argument is checked before the first request."""
    methods = []
    if to_earliest:
        methods.append(Reset("earliest"))
    if to_latest:
        methods.append(Reset("latest"))
    if to_current:
        methods.append(Reset("current"))
    if to_offset is not None:
        methods.append(Reset("offset", to_offset))
    if shift_by is not None:
        methods.append(Reset("shift", shift_by))
    if to_datetime is not None:
        parse_datetime(to_datetime)
        methods.append(Reset("datetime", text=to_datetime))
    if by_duration is not None:
        parse_duration(by_duration)
        methods.append(Reset("duration", text=by_duration))
    if from_file is not None:
        methods.append(Reset("file", text=from_file))
    if len(methods) != 1:
        raise ValueError(
            "Choose exactly one method: --to-earliest, --to-latest, --to-current, --to-offset, --shift-by, "
            "--to-datetime, --by-duration or --from-file."
        )
    return methods[0]


def targets(
    reset: Reset,
    partitions: Iterable[TopicPartition],
    *,
    first: Offsets,
    last: Offsets,
    committed: Offsets,
    by_time: Offsets,
    wanted: Offsets,
) -> dict[TopicPartition, int]:
    """The new offset of each partition, before it is limited to the bounds of the log."""
    result = {}
    for partition in partitions:
        if reset.method == "earliest":
            result[partition] = first[partition]
        elif reset.method == "latest":
            result[partition] = last[partition]
        elif reset.method == "current":
            # A partition without a committed offset goes to the end, as with Kafka's tool.
            result[partition] = committed.get(partition, last[partition])
        elif reset.method == "offset":
            result[partition] = reset.number
        elif reset.method == "shift":
            if partition not in committed:
                raise ValueError(f"{partition} has no committed offset to shift; choose another method for it.")
            result[partition] = committed[partition] + reset.number
        elif reset.method == "file":
            result[partition] = wanted[partition]
        else:
            result[partition] = by_time[partition]
    return result


def clamp(planned: Offsets, *, first: Offsets, last: Offsets) -> dict[TopicPartition, int]:
    """Limits an offset to the bounds of the log."""
    return {partition: min(max(offset, first[partition]), last[partition]) for partition, offset in planned.items()}
