"""The metadata of a node that does not decide: its copy of the log, replayed up to the committed offset.

The active controller replays its own records when it writes them. Every other node runs this, standby controllers
included. Newly committed batches are replayed into one next image, which is published.

Thousands of records take tens of milliseconds, in which no client would be served. So a turn of the loop replays a
limited number, and the next turn continues (`advance` with `in_turns`). A published image never ends inside a batch: a
large batch is replayed over several turns into one delta.

A node that is far behind gets a snapshot instead of records. The snapshot is loaded over several turns, too, and
published as one change (`reload` with `in_turns`). Records that are committed meanwhile wait for the load. Another
snapshot restarts the load, and a caller that needs the newest image (`advance` without `in_turns`) finishes it at once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from itertools import chain
from typing import TYPE_CHECKING

from ottla.metadata.delta import CorruptMetadataError, MetadataDelta
from ottla.metadata.image_step import step_between
from ottla.metadata.loader import MetadataReplayer, load_image, loading
from ottla.metadata.publishers import Publishers
from ottla.metadata.record_encoding import RecordDecoder
from ottla.metadata.snapshot_policy import SnapshotPolicy
from ottla.storage.errors import DISK_RETRY_SECONDS
from ottla.wire.codec import MalformedMessage

if TYPE_CHECKING:
    from ottla.metadata.image import MetadataImage
    from ottla.model.config import BrokerConfig
    from ottla.model.ports import World
    from ottla.quorum.local_log import CommittedBatch
    from ottla.quorum.log import ReadableMetadataLog
    from ottla.wire.message import Message

__all__ = ["RECORDS_PER_TURN", "MetadataFollower"]

# Decoding and replaying this many records takes two or three milliseconds.
RECORDS_PER_TURN = 500


class _Replay:
    """Committed records that are not published yet: the next image, up to a place in a batch."""

    __slots__ = ("batch", "delta", "epoch", "offset", "position", "timestamp_ms")

    def __init__(self, image: MetadataImage) -> None:
        self.delta = MetadataDelta(image)
        # The offset of the last batch that was replayed completely.
        self.offset = image.offset
        self.epoch = image.epoch
        self.timestamp_ms = image.timestamp_ms
        # The batch of which a part is replayed, and the number of its records that are.
        self.batch: CommittedBatch | None = None
        self.position = 0

    def finished(self, batch: CommittedBatch) -> None:
        self.offset, self.epoch, self.timestamp_ms = batch.last_offset, batch.epoch, batch.timestamp_ms
        self.batch, self.position = None, 0


class MetadataFollower:
    """`publishers.image` is the newest committed image. `advance` must be called when the log has committed more.

    `on_more` is called in a later turn when `advance` has left records, and must call it again.
    """

    def __init__(self, *, world: World, log: ReadableMetadataLog, config: BrokerConfig, cluster_id: str) -> None:
        self._log = log
        self._cluster_id = cluster_id
        loaded = load_image(log, cluster_id=cluster_id)
        self._replayer = MetadataReplayer(loaded.image, held=loaded.held)
        self.publishers = Publishers(loaded.image)
        self.snapshots = SnapshotPolicy(
            world=world,
            log=log,
            config=config,
            bytes_since_snapshot=loaded.bytes_since_snapshot,
            is_held_back=lambda: self.in_transaction,
        )
        self.publishers.add(self.snapshots)
        self._scheduler = world.scheduler
        self._replay: _Replay | None = None
        # Replaces the image after the log was replaced. Nothing is replayed until it has ended.
        self._loading: Generator[None, None, None] | None = None
        self._may_not_go_back = False
        self._is_planned = False
        self.on_more: Callable[[], object] = lambda: self.advance(in_turns=True)

    @property
    def image(self) -> MetadataImage:
        return self.publishers.image

    @property
    def in_transaction(self) -> bool:
        """True if the committed log ends inside a metadata transaction."""
        return self._replayer.in_transaction

    @property
    def held(self) -> list[Message] | None:
        """The records of that transaction so far; None if the log does not end inside one."""
        return self._replayer.held

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        """Publishes an image that the active controller has replayed and the quorum has now committed."""
        self._replayer = MetadataReplayer(image)
        self.publishers.publish(delta, image)

    def advance(self, *, in_turns: bool = False) -> None:
        """Replays and publishes newly committed batches; raises CorruptMetadataError.

        With `in_turns`, at most `RECORDS_PER_TURN` records in this turn of the loop.
        """
        if in_turns and self._is_planned:
            return
        if self._loading is not None:
            self._load(self._loading, in_turns=in_turns)
            if self._loading is not None:
                self._plan()
                return
        replay = self._replay or _Replay(self.publishers.image)
        self._replay = None
        try:
            is_all = self._replay_some(replay, RECORDS_PER_TURN if in_turns else None)
        except OSError:
            # The state between two batches. It is kept, because the replayer may hold records of an open transaction.
            self._replay = replay
            self._is_planned = True
            self._scheduler.call_later(DISK_RETRY_SECONDS, self._continue)
            raise
        if replay.batch is not None:
            self._replay = replay
        elif replay.offset > replay.delta.image.offset:
            image = self._replayer.image = replay.delta.apply(
                offset=replay.offset, epoch=replay.epoch, timestamp_ms=replay.timestamp_ms
            )
            self.publishers.publish(replay.delta, image)
        if not is_all:
            self._plan()

    def _plan(self) -> None:
        if not self._is_planned:
            self._is_planned = True
            self._scheduler.call_soon(self._continue)

    def _continue(self) -> None:
        self._is_planned = False
        self.on_more()

    def _replay_some(self, replay: _Replay, limit: int | None) -> bool:
        """Whether all committed batches are replayed; False once the limit is reached."""
        remaining = limit
        decoder = RecordDecoder()
        for batch in self._batches_after(replay):
            if remaining == 0:
                return False
            end = len(batch.values) if remaining is None else min(len(batch.values), replay.position + remaining)
            values = batch.values[replay.position : end]
            try:
                records = [decoder.decode(value) for value in values]
            except MalformedMessage as error:
                raise CorruptMetadataError(
                    f"the metadata log cannot be read at offset {batch.base_offset}: {error}"
                ) from error
            for record in self._replayer.visible(records, last_offset=batch.last_offset):
                replay.delta.replay(record)
            self.snapshots.appended(sum(map(len, values)))
            if remaining is not None:
                remaining -= len(values)
            if end < len(batch.values):
                replay.batch, replay.position = batch, end
                return False
            replay.finished(batch)
        return True

    def _batches_after(self, replay: _Replay) -> Iterator[CommittedBatch]:
        """The rest of the batch of which a part is replayed, and the batches after it."""
        if replay.batch is None:
            return self._log.committed_batches(replay.offset + 1)
        return chain((replay.batch,), self._log.committed_batches(replay.batch.last_offset + 1))

    def reload(self, *, is_followed: bool, in_turns: bool = False) -> None:
        """Loads the image again after the log was replaced; raises CorruptMetadataError.

        The new image may be older only before the machines of a broker follow the images (`is_followed`). With
        `in_turns` this turn of the loop only begins.
        """
        self._replay = None
        self._may_not_go_back = is_followed
        if is_followed:
            # Checked now: when the load ends, the committed log may have passed that offset again with other records.
            self._check_not_back(self._log.committed_offset - 1)
        self._loading = self._reloading(in_turns=in_turns)
        if in_turns:
            self._plan()
        else:
            self._load(self._loading, in_turns=False)

    def _load(self, work: Generator[None, None, None], *, in_turns: bool) -> None:
        """Continues with the load: one slice, or all of it."""
        try:
            next(work)
            while not in_turns:
                next(work)
        except StopIteration:
            self._loading = None
        except OSError:
            # The disk may recover: the whole load is tried again.
            self._loading = self._reloading(in_turns=in_turns)
            self._is_planned = True
            self._scheduler.call_later(DISK_RETRY_SECONDS, self._continue)
            raise
        except Exception:
            # The image does not match the log: a later `advance` must fail, too, and not continue from the image.
            self._loading = self._reloading(in_turns=in_turns)
            raise

    def _reloading(self, *, in_turns: bool) -> Generator[None, None, None]:
        before = self.publishers.image
        loaded = yield from loading(
            self._log, cluster_id=self._cluster_id, records_per_slice=RECORDS_PER_TURN if in_turns else None
        )
        image = loaded.image
        if self._may_not_go_back:
            self._check_not_back(image.offset)
        if image.offset >= before.offset:
            delta = yield from step_between(before, image)
        else:
            delta = None
        assert self.publishers.image is before, "nothing is published while a load is under way"
        self._replayer = MetadataReplayer(image, held=loaded.held)
        if delta is not None:
            self.publishers.publish(delta, image)
        else:
            self.publishers.image = image

    def _check_not_back(self, offset: int) -> None:
        if offset < self.image.offset:
            raise CorruptMetadataError(
                f"metadata up to offset {self.image.offset} was committed, but the controller has only "
                f"{offset}: restart this node"
            )
