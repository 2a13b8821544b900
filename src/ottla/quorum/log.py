"""The interface of the metadata log, for any kind of quorum.

`MetadataLog` is the only interface between `ottla.metadata` and a quorum: append values, wait for their commit, read
committed values, keep snapshots. A value is one framed metadata record; the log does not interpret it.
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
    """A copy of the log, on the leader or on any other node."""

    @property
    def node_id(self) -> int: ...

    @property
    def leader_id(self) -> int:
        """The node id of the active controller, or -1."""

    @property
    def leader_epoch(self) -> int: ...

    @property
    def voter_ids(self) -> tuple[int, ...]: ...

    @property
    def voter_directory_id(self) -> Uuid:
        """The directory id of the voter on this node (KIP-853); zero in a quorum given by configuration."""

    @property
    def start_offset(self) -> int:
        """The first readable offset; a snapshot has the earlier entries."""

    @property
    def committed_offset(self) -> int:
        """The first uncommitted offset (the high watermark)."""

    @property
    def end_offset(self) -> int:
        """The offset of the next append."""

    def committed_batches(self, from_offset: int) -> Iterator[CommittedBatch]: ...

    def region(self, from_offset: int, *, max_bytes: int) -> FileRegion | None:
        """Committed bytes for a fetch of another node."""

    def latest_snapshot(self) -> tuple[SnapshotId, Snapshot] | None: ...

    def write_snapshot(
        self, *, end_offset: int, epoch: int, values: Iterable[bytes], last_contained_timestamp_ms: int
    ) -> Deferred[SnapshotId]: ...


class MetadataLog(ReadableMetadataLog, Protocol):
    """The controller's interface to a quorum with any number of voters."""

    def append(self, values: Sequence[bytes], *, timestamp_ms: int | None = None) -> Deferred[int]:
        """Appends one atomic batch, by default with the current time. Resolves with its last offset when committed."""
