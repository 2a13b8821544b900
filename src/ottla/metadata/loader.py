"""Builds an image from the metadata log: the newest snapshot, then every committed batch after it.

The records between BeginTransactionRecord and EndTransactionRecord form a transaction (KIP-868). A transaction may span
batches, and no image shows a part of it. A transaction without an end in the log has no effect.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.metadata.delta import CorruptMetadataError, MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.versions import METADATA_VERSION_UNSTABLE, metadata_version_name
from ottla.quorum.log import ReadableMetadataLog
from ottla.wire.codec import MalformedMessage
from ottla.wire.message import Message
from ottla.wire.messages.metadata_records import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord
from ottla.wire.metadata_codec import decode_record

__all__ = ["LoadedMetadata", "MetadataReplayer", "load_image"]


class MetadataReplayer:
    """Replays batches of records into images, and holds back the records of an open metadata transaction."""

    __slots__ = ("_held", "image")

    def __init__(self, image: MetadataImage, *, in_transaction: bool = False) -> None:
        self.image = image
        # The records of the open transaction; None outside a transaction.
        self._held: list[Message] | None = [] if in_transaction else None

    @property
    def in_transaction(self) -> bool:
        return self._held is not None

    def visible(self, records: Sequence[Message], *, last_offset: int) -> list[Message]:
        """The records that take effect with this batch, with earlier records of a transaction that ends in it."""
        effective: list[Message] = []
        for record in records:
            if isinstance(record, BeginTransactionRecord):
                if self._held is not None:
                    raise CorruptMetadataError(f"a transaction begins inside another one before offset {last_offset}")
                self._held = []
            elif isinstance(record, (EndTransactionRecord, AbortTransactionRecord)):
                if self._held is None:
                    raise CorruptMetadataError(f"a transaction ends that never began before offset {last_offset}")
                if isinstance(record, EndTransactionRecord):
                    effective += self._held
                self._held = None
            elif self._held is not None:
                self._held.append(record)
            else:
                effective.append(record)
        return effective

    def replay(
        self, records: Sequence[Message], *, last_offset: int, epoch: int, timestamp_ms: int
    ) -> tuple[MetadataDelta, MetadataImage]:
        """Replays one batch. Returns the changes and the image after them, which also becomes `image`."""
        delta = MetadataDelta(self.image)
        for record in self.visible(records, last_offset=last_offset):
            delta.replay(record)
        self.image = delta.apply(offset=last_offset, epoch=epoch, timestamp_ms=timestamp_ms)
        return delta, self.image


class LoadedMetadata:
    """An image, and statistics of its replay for the log line of a start."""

    __slots__ = ("bytes_since_snapshot", "image", "open_transaction", "records_replayed", "snapshot_end_offset")

    def __init__(self) -> None:
        self.image = MetadataImage()
        self.snapshot_end_offset = 0
        self.records_replayed = 0
        self.bytes_since_snapshot = 0
        self.open_transaction = False


def load_image(log: ReadableMetadataLog, *, cluster_id: str) -> LoadedMetadata:
    """Replays the committed log. All batches go into one delta, so the cost depends on the records only."""
    loaded = LoadedMetadata()
    image = MetadataImage(cluster_id=cluster_id)
    from_offset = log.start_offset
    snapshot = log.latest_snapshot()
    if snapshot is not None:
        identity, content = snapshot
        delta = MetadataDelta(image)
        for value in content.values:
            delta.replay(_decode(value, "the snapshot"))
        image = delta.apply(
            offset=identity.end_offset - 1,
            epoch=identity.epoch,
            timestamp_ms=content.last_contained_timestamp_ms,
        )
        from_offset = loaded.snapshot_end_offset = identity.end_offset
        loaded.records_replayed = len(content.values)
    replayer = MetadataReplayer(image)
    delta = MetadataDelta(image)
    offset, epoch, timestamp_ms = image.offset, image.epoch, image.timestamp_ms
    for batch in log.committed_batches(from_offset):
        records = [_decode(value, f"offset {batch.base_offset}") for value in batch.values]
        for record in replayer.visible(records, last_offset=batch.last_offset):
            delta.replay(record)
        offset, epoch, timestamp_ms = batch.last_offset, batch.epoch, batch.timestamp_ms
        loaded.records_replayed += len(records)
        loaded.bytes_since_snapshot += sum(map(len, batch.values))
    loaded.open_transaction = replayer.in_transaction
    loaded.image = delta.apply(offset=offset, epoch=epoch, timestamp_ms=timestamp_ms)
    level = loaded.image.features.metadata_version
    if level > METADATA_VERSION_UNSTABLE:
        raise CorruptMetadataError(
            f"the cluster runs at metadata.version level {level}; this release knows levels up to "
            f"{METADATA_VERSION_UNSTABLE} ({metadata_version_name(METADATA_VERSION_UNSTABLE)})"
        )
    return loaded


def _decode(value: memoryview, where: str) -> Message:
    try:
        return decode_record(value)
    except MalformedMessage as error:
        raise CorruptMetadataError(f"the metadata log cannot be read at {where}: {error}") from error
