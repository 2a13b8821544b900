"""The in-sync replicas of a partition over time, from the metadata log of a node.

The controller writes every change of a partition's leader and in-sync replicas to that log: the log is their history. A
snapshot ends the history where older segments are deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ottla.cli.drawing.chart import Cell, Chart, Row, Tone
from ottla.model.ids import Uuid
from ottla.records.iterate import iterate_batches, iterate_records
from ottla.wire.message import Message
from ottla.wire.messages.metadata_records import PartitionChangeRecord, PartitionRecord, TopicRecord
from ottla.wire.metadata_codec import decode_record

__all__ = ["Change", "draw_in_sync", "partition_history", "read_metadata_log"]

METADATA_LOG = "__cluster_metadata-0"
UNCHANGED = -2
LEGEND = ((Tone.STRONG, "leader"), (Tone.NORMAL, "in sync"), (Tone.ABSENT, "out of sync"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """The state of a partition from a point in time on."""

    timestamp_ms: int
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


def read_metadata_log(directory: Path) -> Iterator[tuple[int, Message]]:
    """Time and content of every metadata record. Raises ValueError if there is no metadata log below the directory."""
    logs = sorted(directory.glob(f"**/{METADATA_LOG}"))
    if not logs:
        raise ValueError(f"There is no {METADATA_LOG} below {directory}: name the directory of a controller's data.")
    for path in sorted(path for path in logs[0].glob("*.log") if path.stem.isdecimal()):
        for batch in iterate_batches(path.read_bytes()):
            if batch.header.is_control:
                continue
            for record in iterate_records(batch):
                if record.value is not None:
                    yield record.timestamp, decode_record(memoryview(record.value))


def partition_history(records: Iterable[tuple[int, Message]], topic: str, partition: int) -> list[Change]:
    """Every state of the partition, of the newest topic with this name."""
    wanted: Uuid | None = None
    changes: list[Change] = []
    for timestamp_ms, record in records:
        if isinstance(record, TopicRecord) and record.name == topic:
            wanted, changes = record.topic_id, []
        elif (
            isinstance(record, PartitionRecord | PartitionChangeRecord)
            and record.topic_id == wanted
            and record.partition_id == partition
        ):
            changes.append(_after(changes, timestamp_ms, record))
    return changes


def _after(changes: list[Change], timestamp_ms: int, record: PartitionRecord | PartitionChangeRecord) -> Change:
    if isinstance(record, PartitionRecord):
        return Change(
            timestamp_ms=timestamp_ms,
            leader=record.leader,
            replicas=tuple(record.replicas),
            in_sync=tuple(record.isr),
        )
    before = changes[-1]
    return Change(
        timestamp_ms=timestamp_ms,
        leader=before.leader if record.leader == UNCHANGED else record.leader,
        replicas=before.replicas if record.replicas is None else tuple(record.replicas),
        in_sync=before.in_sync if record.isr is None else tuple(record.isr),
    )


def draw_in_sync(name: str, changes: list[Change]) -> Chart:
    """A column for each change, from left to right."""
    brokers = sorted({broker for change in changes for broker in change.replicas})
    rows = tuple(Row(f"broker {broker}", tuple(_cell(broker, change) for change in changes)) for broker in brokers)
    columns = tuple(
        datetime.fromtimestamp(change.timestamp_ms / 1000, UTC).astimezone().strftime("%H:%M:%S") for change in changes
    )
    count = len(changes[-1].in_sync)
    return Chart(
        title=f"{name}: {count} of {len(changes[-1].replicas)} replicas in sync",
        rows=rows,
        columns=columns,
        legend=LEGEND,
    )


def _cell(broker: int, change: Change) -> Cell:
    if broker == change.leader:
        return Cell("leader", Tone.STRONG)
    if broker in change.in_sync:
        return Cell("in sync", Tone.NORMAL)
    return Cell("out", Tone.ABSENT) if broker in change.replicas else Cell("none", Tone.ABSENT)
