"""The position of a sink's task: offsets of its consumer group, with a note about the batch in progress.

Before a batch is written, its ranges are stored in the metadata of the group's offsets, which do not move. After the
write the offsets move to the end of the ranges. The next run of the task, on any machine, therefore sees either no
batch in progress or exactly the interrupted one, with its id. Both steps are transactions of the task's transactional
id, so a fenced worker can take neither.

The note is a small JSON object in the metadata of every partition: `b` the batch's id, `e` the epoch of the ids, `t`
the task, `i` the topic id, and `n` the end of the range while the batch is in progress. A topic that was deleted and
created again has a new topic id, and positions in the old topic do not apply to it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ottla.client.admin.groups import CommittedOffset
from ottla.connect.api import OffsetRange
from ottla.model.ids import TopicPartition

__all__ = ["Standing", "committed_note", "share_of", "standing_of", "started_note"]

# The topic ids of brokers without topic ids: none is known.
UNKNOWN: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The position of a task, from its group's offsets."""

    positions: Mapping[TopicPartition, int]
    # The ranges of the interrupted batch, if there is one.
    unfinished: tuple[OffsetRange, ...]
    # The id of the interrupted batch, or of the next batch.
    batch_id: int
    # None before the first batch.
    epoch: str | None
    # Partitions of topics that were deleted and created again since they were read.
    recreated: frozenset[TopicPartition] = frozenset()


def share_of(partitions: Iterable[TopicPartition], *, task: int, count: int) -> list[TopicPartition]:
    """The partitions of a task. They do not change when other topics come and go."""
    return sorted(
        partition
        for partition in partitions
        if (zlib.crc32(partition.topic.encode()) + partition.partition) % count == task
    )


def started_note(
    ranges: Sequence[OffsetRange], *, batch_id: int, epoch: str, task: int, topic_ids: Mapping[str, str] = UNKNOWN
) -> dict[TopicPartition, CommittedOffset]:
    return {
        TopicPartition(piece.topic, piece.partition): CommittedOffset(
            piece.start,
            -1,
            _note(batch_id=batch_id, epoch=epoch, task=task, topic_id=topic_ids.get(piece.topic), end=piece.end),
        )
        for piece in ranges
    }


def committed_note(
    ranges: Sequence[OffsetRange], *, batch_id: int, epoch: str, task: int, topic_ids: Mapping[str, str] = UNKNOWN
) -> dict[TopicPartition, CommittedOffset]:
    return {
        TopicPartition(piece.topic, piece.partition): CommittedOffset(
            piece.end, -1, _note(batch_id=batch_id, epoch=epoch, task=task, topic_id=topic_ids.get(piece.topic))
        )
        for piece in ranges
    }


def standing_of(
    committed: Mapping[TopicPartition, CommittedOffset],
    partitions: Iterable[TopicPartition],
    *,
    task: int,
    topic_ids: Mapping[str, str] = UNKNOWN,
) -> Standing:
    """`committed` are all offsets of the group, `partitions` the task's, `topic_ids` the present topic ids."""
    notes = {partition: _read(commit.metadata) for partition, commit in committed.items()}
    owned = set(partitions)
    last, epoch = -1, None
    for note in notes.values():
        if note is not None and int(note["b"]) > last:
            last, epoch = int(note["b"]), str(note["e"])
    # By partition: some partitions of a new topic may have been read already.
    void = {
        partition
        for partition, note in notes.items()
        if note and _differ(note.get("i"), topic_ids.get(partition.topic))
    }
    under_way = {
        partition: note
        for partition, note in notes.items()
        if note is not None and "n" in note and int(note["t"]) == task and partition not in void
    }
    ranges: tuple[OffsetRange, ...] = ()
    batch_id = last + 1
    if under_way:
        newest = max(int(note["b"]) for note in under_way.values())
        batch = {partition: note for partition, note in under_way.items() if int(note["b"]) == newest}
        # A batch of another division of partitions is not repeated: this task has only a part of it.
        if set(batch) <= owned:
            ranges = tuple(
                OffsetRange(partition.topic, partition.partition, committed[partition].offset, int(note["n"]))
                for partition, note in sorted(batch.items())
            )
            batch_id, epoch = newest, str(next(iter(batch.values()))["e"])
    positions = {
        partition: committed[partition].offset
        for partition in owned
        if partition in committed and partition not in void
    }
    recreated = frozenset(void & owned)
    return Standing(positions=positions, unfinished=ranges, batch_id=batch_id, epoch=epoch, recreated=recreated)


def _differ(noted: object, current: str | None) -> bool:
    """True if both ids are known and differ."""
    return bool(noted and current) and noted != current


def _note(*, batch_id: int, epoch: str, task: int, topic_id: str | None, end: int | None = None) -> str:
    note: dict[str, int | str] = {"b": batch_id, "e": epoch, "t": task}
    if topic_id:
        note["i"] = topic_id
    if end is not None:
        note["n"] = end
    return json.dumps(note, separators=(",", ":"))


def _read(metadata: str) -> dict[str, int | str] | None:
    try:
        note = json.loads(metadata)
    except ValueError:
        return None
    return note if isinstance(note, dict) and {"b", "e", "t"} <= set(note) else None
