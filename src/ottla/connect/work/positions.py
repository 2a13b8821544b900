"""Where a sink's task stands: offsets of its consumer group, with a note of the batch that is being written.

Before a batch is written its ranges are noted in the metadata of the group's offsets, which stay where they are; after
it they move on. So whoever runs the task next, on whatever machine, finds either no batch under way or exactly the one
that was, with its id. Both steps are transactions of the task's own id: a worker that lost the task cannot take either.

The note is small JSON in every partition's metadata: `b` the batch's id, `e` the epoch of the ids, `t` the task, `i`
the id of the topic, and `n` the end of the range while the batch is under way. A topic that was deleted and made again
has another id: how far the first was read says nothing of it.
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

# Brokers that know no ids, and groups that were noted without them.
UNKNOWN: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """What a group's offsets say about a task."""

    positions: Mapping[TopicPartition, int]
    # The batch that was being written when somebody stopped, if there was one.
    unfinished: tuple[OffsetRange, ...]
    # Of the unfinished batch, or of the next one.
    batch_id: int
    # None: no batch has been counted yet.
    epoch: str | None
    # Partitions of topics that are others than those that were read.
    made_again: frozenset[TopicPartition] = frozenset()


def share_of(partitions: Iterable[TopicPartition], *, task: int, count: int) -> list[TopicPartition]:
    """The partitions of one of a connector's tasks: always the same ones, whatever other topics come and go."""
    return sorted(one for one in partitions if (zlib.crc32(one.topic.encode()) + one.partition) % count == task)


def started_note(
    ranges: Sequence[OffsetRange], *, batch_id: int, epoch: str, task: int, topic_ids: Mapping[str, str] = UNKNOWN
) -> dict[TopicPartition, CommittedOffset]:
    return {
        TopicPartition(one.topic, one.partition): CommittedOffset(
            one.start,
            -1,
            _note(batch_id=batch_id, epoch=epoch, task=task, topic_id=topic_ids.get(one.topic), end=one.end),
        )
        for one in ranges
    }


def committed_note(
    ranges: Sequence[OffsetRange], *, batch_id: int, epoch: str, task: int, topic_ids: Mapping[str, str] = UNKNOWN
) -> dict[TopicPartition, CommittedOffset]:
    return {
        TopicPartition(one.topic, one.partition): CommittedOffset(
            one.end, -1, _note(batch_id=batch_id, epoch=epoch, task=task, topic_id=topic_ids.get(one.topic))
        )
        for one in ranges
    }


def standing_of(
    committed: Mapping[TopicPartition, CommittedOffset],
    mine: Iterable[TopicPartition],
    *,
    task: int,
    topic_ids: Mapping[str, str] = UNKNOWN,
) -> Standing:
    """`committed` is everything that the group has, `mine` are the task's partitions, `topic_ids` those of now."""
    notes = {one: _read(each.metadata) for one, each in committed.items()}
    owned = set(mine)
    last, epoch = -1, None
    for note in notes.values():
        if note is not None and int(note["b"]) > last:
            last, epoch = int(note["b"]), str(note["e"])
    # One by one: of a topic that was made again some partitions may have been read since, and others not.
    void = {one for one, note in notes.items() if note and _differ(note.get("i"), topic_ids.get(one.topic))}
    under_way = {
        one: note
        for one, note in notes.items()
        if note is not None and "n" in note and int(note["t"]) == task and one not in void
    }
    ranges: tuple[OffsetRange, ...] = ()
    batch_id = last + 1
    if under_way:
        newest = max(int(note["b"]) for note in under_way.values())
        batch = {one: note for one, note in under_way.items() if int(note["b"]) == newest}
        # Of a batch that was divided otherwise only a part would be here: that is another batch.
        if set(batch) <= owned:
            ranges = tuple(
                OffsetRange(one.topic, one.partition, committed[one].offset, int(note["n"]))
                for one, note in sorted(batch.items())
            )
            batch_id, epoch = newest, str(next(iter(batch.values()))["e"])
    positions = {one: committed[one].offset for one in owned if one in committed and one not in void}
    made_again = frozenset(void & owned)
    return Standing(positions=positions, unfinished=ranges, batch_id=batch_id, epoch=epoch, made_again=made_again)


def _differ(noted: object, current: str | None) -> bool:
    """Whether both are known, and are not the same."""
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
        found = json.loads(metadata)
    except ValueError:
        return None
    return found if isinstance(found, dict) and {"b", "e", "t"} <= set(found) else None
