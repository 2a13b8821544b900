"""Builds an image from the metadata log: the newest snapshot, then every committed batch after it.

A running node loads in slices (`loading`), between which its loop serves other requests.

The records between BeginTransactionRecord and EndTransactionRecord form a transaction (KIP-868). A transaction may span
batches, and no image shows a part of it. A transaction without an end in the log has no effect.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from ottla.metadata.delta import CorruptMetadataError, MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.record_encoding import RecordDecoder
from ottla.metadata.versions import METADATA_VERSION_UNSTABLE, metadata_version_name
from ottla.model.slices import finish
from ottla.quorum.log import ReadableMetadataLog
from ottla.wire.codec import MalformedMessage
from ottla.wire.message import Message
from ottla.wire.messages.metadata_records import AbortTransactionRecord, BeginTransactionRecord, EndTransactionRecord

__all__ = ["LoadedMetadata", "MetadataReplayer", "load_image", "loading"]


class MetadataReplayer:
    """Replays batches of records into images, and holds back the records of an open metadata transaction."""

    __slots__ = ("held", "image")

    def __init__(self, image: MetadataImage, *, held: list[Message] | None = None) -> None:
        self.image = image
        # The records of the open transaction so far; None outside a transaction.
        self.held = held

    @property
    def in_transaction(self) -> bool:
        return self.held is not None

    def visible(self, records: Sequence[Message], *, last_offset: int) -> list[Message]:
        """The records that take effect with this batch, with earlier records of a transaction that ends in it."""
        effective: list[Message] = []
        for record in records:
            if isinstance(record, BeginTransactionRecord):
                if self.held is not None:
                    raise CorruptMetadataError(f"a transaction begins inside another one before offset {last_offset}")
                self.held = []
            elif isinstance(record, (EndTransactionRecord, AbortTransactionRecord)):
                if self.held is None:
                    raise CorruptMetadataError(f"a transaction ends that never began before offset {last_offset}")
                if isinstance(record, EndTransactionRecord):
                    effective += self.held
                self.held = None
            elif self.held is not None:
                self.held.append(record)
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

    __slots__ = ("bytes_since_snapshot", "held", "image", "records_replayed", "snapshot_end_offset")

    def __init__(self) -> None:
        self.image = MetadataImage()
        self.snapshot_end_offset = 0
        self.records_replayed = 0
        self.bytes_since_snapshot = 0
        # The records of a transaction whose end is not in the log: see `MetadataReplayer`.
        self.held: list[Message] | None = None


def load_image(log: ReadableMetadataLog, *, cluster_id: str) -> LoadedMetadata:
    """Replays the committed log. All batches go into one delta, so the cost depends on the records only."""
    return finish(loading(log, cluster_id=cluster_id))


def loading(
    log: ReadableMetadataLog, *, cluster_id: str, records_per_slice: int | None = None
) -> Generator[None, None, LoadedMetadata]:
    """`load_image` that pauses after every slice, by default never. It must be dropped when the log is replaced."""
    loaded = LoadedMetadata()
    decoder = RecordDecoder()
    image = MetadataImage(cluster_id=cluster_id)
    from_offset = log.start_offset
    snapshot = log.latest_snapshot()
    if snapshot is not None:
        identity, content = snapshot
        delta = MetadataDelta(image)
        for values in _slices(content.values, records_per_slice):
            for value in values:
                delta.replay(_decode(decoder, value, "the snapshot"))
            if records_per_slice is not None:
                yield
        applying = delta.applying(
            offset=identity.end_offset - 1,
            epoch=identity.epoch,
            timestamp_ms=content.last_contained_timestamp_ms,
        )
        image = (yield from applying) if records_per_slice is not None else finish(applying)
        from_offset = loaded.snapshot_end_offset = identity.end_offset
        loaded.records_replayed = len(content.values)
    loaded.image = yield from _replaying(log, from_offset, image, decoder, loaded, records_per_slice)
    level = loaded.image.features.metadata_version
    if level > METADATA_VERSION_UNSTABLE:
        raise CorruptMetadataError(
            f"the cluster runs at metadata.version level {level}; this release knows levels up to "
            f"{METADATA_VERSION_UNSTABLE} ({metadata_version_name(METADATA_VERSION_UNSTABLE)})"
        )
    return loaded


def _replaying(
    log: ReadableMetadataLog,
    from_offset: int,
    image: MetadataImage,
    decoder: RecordDecoder,
    loaded: LoadedMetadata,
    records_per_slice: int | None,
) -> Generator[None, None, MetadataImage]:
    """Replays the committed batches from an offset into the next image."""
    replayer = MetadataReplayer(image)
    delta = MetadataDelta(image)
    offset, epoch, timestamp_ms = image.offset, image.epoch, image.timestamp_ms
    is_all = False
    while not is_all:
        is_all = True
        replayed = 0
        # The log is opened again after a pause: what was read beyond the committed offset may have changed meanwhile.
        for batch in log.committed_batches(max(from_offset, offset + 1)):
            for values in _slices(batch.values, records_per_slice):
                if records_per_slice is not None and replayed >= records_per_slice:
                    yield
                    replayed = 0
                records = [_decode(decoder, value, f"offset {batch.base_offset}") for value in values]
                for record in replayer.visible(records, last_offset=batch.last_offset):
                    delta.replay(record)
                replayed += len(values)
            offset, epoch, timestamp_ms = batch.last_offset, batch.epoch, batch.timestamp_ms
            loaded.records_replayed += len(batch.values)
            loaded.bytes_since_snapshot += sum(map(len, batch.values))
            # Fewer records than the batch has were replayed since the last pause if it was inside the batch.
            if records_per_slice is not None and (replayed >= records_per_slice or replayed < len(batch.values)):
                is_all = False
                yield
                break
    loaded.held = replayer.held
    if records_per_slice is None:
        return delta.apply(offset=offset, epoch=epoch, timestamp_ms=timestamp_ms)
    return (yield from delta.applying(offset=offset, epoch=epoch, timestamp_ms=timestamp_ms))


def _slices(values: list[memoryview], size: int | None) -> list[list[memoryview]]:
    if size is None:
        return [values]
    return [values[start : start + size] for start in range(0, len(values), size)]


def _decode(decoder: RecordDecoder, value: memoryview, place: str) -> Message:
    try:
        return decoder.decode(value)
    except MalformedMessage as error:
        raise CorruptMetadataError(f"the metadata log cannot be read at {place}: {error}") from error
