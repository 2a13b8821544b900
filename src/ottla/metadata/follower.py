"""The metadata of a node that does not decide: its copy of the log, replayed up to the committed offset.

The active controller replays its own records when it writes them. Every other node runs this, standby controllers
included. Newly committed batches are replayed into one next image, which is published.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.metadata.delta import CorruptMetadataError, MetadataDelta
from ottla.metadata.image_step import step_between
from ottla.metadata.loader import MetadataReplayer, load_image
from ottla.metadata.publishers import Publishers
from ottla.metadata.snapshot_policy import SnapshotPolicy
from ottla.wire.codec import MalformedMessage
from ottla.wire.metadata_codec import decode_record

if TYPE_CHECKING:
    from ottla.metadata.image import MetadataImage
    from ottla.model.config import BrokerConfig
    from ottla.model.ports import World
    from ottla.quorum.log import ReadableMetadataLog

__all__ = ["MetadataFollower"]


class MetadataFollower:
    """`publishers.image` is the newest committed image. `advance` must be called when the log has committed more."""

    def __init__(self, *, world: World, log: ReadableMetadataLog, config: BrokerConfig, cluster_id: str) -> None:
        self._log = log
        self._cluster_id = cluster_id
        loaded = load_image(log, cluster_id=cluster_id)
        self._replayer = MetadataReplayer(loaded.image, in_transaction=loaded.open_transaction)
        self.publishers = Publishers(loaded.image)
        self.snapshots = SnapshotPolicy(
            world=world, log=log, config=config, bytes_since_snapshot=loaded.bytes_since_snapshot
        )
        self.publishers.add(self.snapshots)

    @property
    def image(self) -> MetadataImage:
        return self.publishers.image

    @property
    def in_transaction(self) -> bool:
        """True if the committed log ends inside a metadata transaction."""
        return self._replayer.in_transaction

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Publishes an image that the active controller has replayed and the quorum has now committed."""
        self._replayer = MetadataReplayer(image)
        self.publishers.publish(delta, image)

    def advance(self) -> None:
        """Replays and publishes newly committed batches; raises CorruptMetadataError."""
        before = self.publishers.image
        delta = MetadataDelta(before)
        offset, epoch, timestamp_ms = before.offset, before.epoch, before.timestamp_ms
        for batch in self._log.committed_batches(before.offset + 1):
            try:
                records = [decode_record(value) for value in batch.values]
            except MalformedMessage as error:
                raise CorruptMetadataError(
                    f"the metadata log cannot be read at offset {batch.base_offset}: {error}"
                ) from error
            for record in self._replayer.visible(records, last_offset=batch.last_offset):
                delta.replay(record)
            self.snapshots.appended(sum(map(len, batch.values)))
            offset, epoch, timestamp_ms = batch.last_offset, batch.epoch, batch.timestamp_ms
        if offset == before.offset:
            return
        image = self._replayer.image = delta.apply(offset=offset, epoch=epoch, timestamp_ms=timestamp_ms)
        self.publishers.publish(delta, image)

    def reload(self, *, is_followed: bool) -> None:
        """Loads the image again after the log was replaced; raises CorruptMetadataError.

        The new image may be older only before the machines of a broker follow the images (`is_followed`).
        """
        before = self.publishers.image
        loaded = load_image(self._log, cluster_id=self._cluster_id)
        if is_followed and loaded.image.offset < before.offset:
            raise CorruptMetadataError(
                f"metadata up to offset {before.offset} was committed, but the controller has only "
                f"{loaded.image.offset}: restart this node"
            )
        self._replayer = MetadataReplayer(loaded.image, in_transaction=loaded.open_transaction)
        if loaded.image.offset >= before.offset:
            self.publishers.publish(step_between(before, loaded.image), loaded.image)
        else:
            self.publishers.image = loaded.image
