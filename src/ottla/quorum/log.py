"""The metadata log as its writers and readers see it, whatever the quorum is like.

`MetadataLog` is all that `ottla.metadata` knows: append values, learn when they are committed, read what is committed,
keep snapshots. A value is one metadata record in its framing; the log does not look into it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from ottla.model.deferred import Deferred
from ottla.model.ids import Uuid
from ottla.model.ports import FileRegion
from ottla.quorum.local_log import METADATA_DIRECTORY, CommittedBatch, MetadataLogSettings
from ottla.quorum.snapshots import Snapshot, SnapshotId

__all__ = [
    "METADATA_DIRECTORY",
    "CommittedBatch",
    "MetadataLog",
    "MetadataLogSettings",
    "ReadableMetadataLog",
]


class ReadableMetadataLog(Protocol):
    """A copy of the log, whoever writes to it."""

    @property
    def node_id(self) -> int: ...

    @property
    def leader_id(self) -> int:
        """The active controller, or -1."""

    @property
    def leader_epoch(self) -> int: ...

    @property
    def voter_ids(self) -> tuple[int, ...]: ...

    @property
    def voter_directory_id(self) -> Uuid:
        """The directory of this node's voter (KIP-853); zero in a quorum given by configuration."""

    @property
    def start_offset(self) -> int:
        """The first offset that can be read; what is before it is in the snapshot."""

    @property
    def committed_offset(self) -> int:
        """The first offset that is not committed (the high watermark)."""

    @property
    def end_offset(self) -> int:
        """The offset the next append will get."""

    def committed_batches(self, from_offset: int) -> Iterator[CommittedBatch]: ...

    def region(self, from_offset: int, *, max_bytes: int) -> FileRegion | None:
        """Committed bytes for a fetch of another node."""

    def latest_snapshot(self) -> tuple[SnapshotId, Snapshot] | None: ...

    def write_snapshot(
        self, *, end_offset: int, epoch: int, values: Iterable[bytes], last_contained_timestamp_ms: int
    ) -> Deferred[SnapshotId]: ...


class MetadataLog(ReadableMetadataLog, Protocol):
    """What the controller needs of a quorum, however many voters it has."""

    def append(self, values: Sequence[bytes], *, timestamp_ms: int | None = None) -> Deferred[int]:
        """Appends one atomic batch (stamped now unless told); resolves with its last offset once it is committed."""
