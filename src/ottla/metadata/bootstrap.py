"""The first records of a new cluster: `bootstrap.checkpoint` and the records made from it.

Formatting a directory writes the feature levels, and the first SCRAM credentials, to `bootstrap.checkpoint`. The first
leader of an empty log copies them into the log as one transaction, followed by the default `min.insync.replicas` that
eligible leader replicas require (KIP-966). After that only the log matters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ottla.metadata.image import ResourceType
from ottla.metadata.versions import DEFAULT_FEATURE_LEVELS, METADATA_VERSION
from ottla.model.config import BrokerConfig
from ottla.model.ports import Files
from ottla.quorum.local_log import METADATA_DIRECTORY
from ottla.quorum.snapshots import BOOTSTRAP_FILE, SnapshotId, read_snapshot, snapshot_bytes
from ottla.quorum.voters import VoterSet
from ottla.wire.message import Message
from ottla.wire.messages.metadata_records import (
    BeginTransactionRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)
from ottla.wire.metadata_codec import decode_record, encode_record

__all__ = [
    "TRANSACTIONS_LEVEL",
    "bootstrap_records",
    "feature_records",
    "read_bootstrap",
    "write_bootstrap",
    "write_first_voters",
]

# From 3.6-IV1 on, the metadata log has transactions (KIP-868).
TRANSACTIONS_LEVEL = 13


def feature_records(levels: Mapping[str, int] = DEFAULT_FEATURE_LEVELS) -> list[Message]:
    return [FeatureLevelRecord(name=name, feature_level=level) for name, level in levels.items() if level > 0]


def write_bootstrap(
    files: Files,
    directory: str,
    *,
    now_ms: int,
    levels: Mapping[str, int] = DEFAULT_FEATURE_LEVELS,
    credentials: Sequence[Message] = (),
) -> None:
    """Writes `bootstrap.checkpoint` with the feature levels, by default those of this release, and credentials."""
    values = [encode_record(record) for record in (*feature_records(levels), *credentials)]
    batches = snapshot_bytes(values, epoch=0, timestamp_ms=now_ms, last_contained_timestamp_ms=0)
    files.write_atomically(f"{directory}/{BOOTSTRAP_FILE}", b"".join(batches))


def write_first_voters(files: Files, directory: str, voters: VoterSet, *, now_ms: int) -> None:
    """Writes the snapshot before the first entry. It contains only the voters (KIP-853)."""
    log_directory = f"{directory}/{METADATA_DIRECTORY}"
    files.make_directories(log_directory)
    batches = snapshot_bytes(
        [],
        epoch=0,
        timestamp_ms=now_ms,
        last_contained_timestamp_ms=0,
        kraft_version=1,
        voters_record=voters.encode(),
    )
    files.write_atomically(f"{log_directory}/{SnapshotId(0, 0).file_name}", b"".join(batches))


def read_bootstrap(files: Files, directory: str) -> list[Message]:
    """The records of `bootstrap.checkpoint`, or the default records of this release if the file is missing."""
    path = f"{directory}/{BOOTSTRAP_FILE}"
    if not files.exists(path):
        return feature_records()
    return [decode_record(value) for value in read_snapshot(files, path).values]


def bootstrap_records(from_checkpoint: list[Message], config: BrokerConfig) -> list[Any]:
    """The first batch of an empty log."""
    levels = {record.name: record.feature_level for record in from_checkpoint if isinstance(record, FeatureLevelRecord)}
    records: list[Any] = list(from_checkpoint)
    if levels.get("eligible.leader.replicas.version", 0) > 0:
        records.append(
            ConfigRecord(
                resource_type=ResourceType.BROKER,
                resource_name="",
                name="min.insync.replicas",
                value=str(config.min_insync_replicas),
            )
        )
    if levels.get(METADATA_VERSION, 0) < TRANSACTIONS_LEVEL:
        return records
    return [BeginTransactionRecord(name="Bootstrap records"), *records, EndTransactionRecord()]
