"""The source side of a worker: finds its partitions every few seconds, and reads them from their positions on."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from ottla.client.admin.topics import Topics
from ottla.client.cluster import Cluster
from ottla.client.consumer import Consumer, ConsumerSettings
from ottla.client.consumer.decode import ConsumedBatch
from ottla.mirror.copying.pairs import Pair, find_pairs
from ottla.mirror.settings import FlowSettings
from ottla.model.ids import TopicPartition

__all__ = ["FETCH_WAIT_MS", "PairReader", "PairRules"]

logger = logging.getLogger("ottla.mirror.copying")

FETCH_WAIT_MS = 2_000
"""How long a broker holds a fetch without data. Data is answered at once; a fetch of many idle partitions is costly."""

_PAIRS_SECONDS = 5.0
# With a driver that announces changes. The metadata of thousands of partitions is the main cost of an idle worker.
_PAIRS_SECONDS_OF_DRIVEN = 30.0
# The broker that is asked may not know an announced topic yet.
_LATE_SECONDS = 1.0


class PairRules(Protocol):
    """The decisions that differ between the two kinds of copiers."""

    async def accept(self, candidates: list[Pair]) -> list[Pair]:
        """The pairs that this copier may copy, of all that have its number."""

    async def before_new_pairs(self) -> None:
        """Called before the set of pairs changes."""

    async def find_positions(self, new: list[Pair]) -> dict[TopicPartition, int]:
        """The offsets of the source at which new pairs begin."""


class PairReader:
    """`pairs` are those of the last `refresh_when_due`, `next` their positions at the source."""

    def __init__(
        self,
        flow: FlowSettings,
        number: int,
        source: Cluster,
        target: Cluster,
        settings: ConsumerSettings,
        *,
        has_driver: bool,
    ) -> None:
        self._flow = flow
        self._number = number
        self._source = source
        self._target = target
        self._consumer = Consumer(source, settings)
        self.pairs: dict[TopicPartition, Pair] = {}
        self.next: dict[TopicPartition, int] = {}
        self.moved: set[TopicPartition] = set()
        """Partitions whose position has changed since the copier has cleared this set."""
        self._topic_ids: dict[str, str] = {}
        self._due_at = 0.0
        self._seconds = _PAIRS_SECONDS_OF_DRIVEN if has_driver else _PAIRS_SECONDS
        self._expects_change = False

    def refresh_soon(self, *, expects_change: bool = False) -> None:
        self._due_at = 0.0
        self._expects_change = expects_change

    def advance(self, place: TopicPartition, offset: int) -> None:
        """Moves a position forward, never back: records before it are at the target."""
        if self.next[place] < offset:
            self.next[place] = offset
            self.moved.add(place)

    def skip_to(self, place: TopicPartition, offset: int) -> None:
        """Continues at an offset behind records that the source has deleted."""
        self.advance(place, offset)
        self._consumer.seek(place, self.next[place])

    @property
    def has_caught_up(self) -> bool:
        """True if the partitions that have moved are read to their ends, as of the last fetch."""
        return not any(self._consumer.lag(place) for place in self.moved if place in self.pairs)

    async def refresh_when_due(self, rules: PairRules) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() < self._due_at:
            return
        for place, offset in self.next.items():
            # A position that was out of range has moved without a batch.
            self.advance(place, max(offset, self._consumer.position(place)))
        source, target = await asyncio.gather(Topics(self._source).all(), Topics(self._target).all())
        accepted = await rules.accept(
            find_pairs(self._flow, source, target, worker=self._number, workers=self._flow.tasks)
        )
        pairs = {pair.source: pair for pair in accepted}
        is_late = self._expects_change and pairs == self.pairs
        self._expects_change = False
        self._due_at = loop.time() + (_LATE_SECONDS if is_late else self._seconds)
        if pairs == self.pairs:
            return
        await rules.before_new_pairs()
        new = [pair for place, pair in pairs.items() if self.pairs.get(place) != pair]
        kept = {place: offset for place, offset in self.next.items() if pairs.get(place) == self.pairs.get(place)}
        self.next = {**kept, **await rules.find_positions(new)}
        self.pairs = pairs
        self.moved = (self.moved & kept.keys()) | {pair.source for pair in new}
        self._topic_ids = {place.topic: pair.source_topic_id for place, pair in pairs.items()}
        await self._consumer.assign(pairs)
        for place, offset in self.next.items():
            self._consumer.seek(place, offset)
        logger.info("%s, worker %d: copies %d partitions", self._flow.name, self._number, len(pairs))

    async def batches(self, wait_ms: int) -> list[ConsumedBatch]:
        """The next batches. Batches without a record to copy (markers, aborted records) have an empty view.

        A topic that was deleted and made again since the last refresh is not read: its offsets have a new meaning.
        """
        batches = await self._consumer.raw_batches(wait_ms, with_skipped=True)
        replaced = {topic for topic in {batch.partition.topic for batch in batches} if self._was_replaced(topic)}
        if replaced:
            self.refresh_soon()
            for place in {batch.partition for batch in batches if batch.partition in self.pairs}:
                # The records are read again if the refresh finds the same topic, because a broker still knew a former
                # topic of this name.
                if place.topic in replaced:
                    self._consumer.seek(place, self.next[place])
            batches = [batch for batch in batches if batch.partition.topic not in replaced]
        return [batch for batch in batches if batch.partition in self.pairs]

    def _was_replaced(self, topic: str) -> bool:
        known = self._source.metadata.topics.get(topic)
        if known is None or not known.topic_id:
            return False
        return self._topic_ids.get(topic, "") not in ("", str(known.topic_id))

    async def close(self) -> None:
        await self._consumer.close()
