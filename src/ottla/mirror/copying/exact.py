"""Copies with the offsets of the source, to topics of Ottla that this mirror alone writes (`ottla.mirror.name`).

Everything in the log of the source is copied as it is, also open and aborted transactions and their markers. Where the
source no longer has a record at an offset, the copy gets an empty batch. The end of the copy is the position at the
source: no other position is stored, and a batch that is sent twice is written once.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

from ottla.client.admin.offsets import EARLIEST, LATEST, Offsets
from ottla.client.cluster import Cluster
from ottla.client.consumer import ConsumerSettings
from ottla.client.consumer.decode import ConsumedBatch
from ottla.client.errors import ClientError, ConnectionLost, error_of
from ottla.client.producer import Producer, ProducerSettings
from ottla.mirror.copying.batches import empty_batch, mirrored_batch, modern_batch
from ottla.mirror.copying.ownership import Ownership
from ottla.mirror.copying.pairs import Pair
from ottla.mirror.copying.reading import FETCH_WAIT_MS, PairReader
from ottla.mirror.copying.throttle import Throttle
from ottla.mirror.offset_map import MapReader, Origin, map_topic
from ottla.mirror.settings import FlowSettings, MirrorError
from ottla.mirror.topics import TopicSync
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.model.mirrors import MIRROR_CLIENT_ID_PREFIX
from ottla.wire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData

__all__ = ["ExactCopier"]

logger = logging.getLogger("ottla.mirror.copying")

# The interval at which an idle worker looks for announcements of the driver.
_IDLE_MS = 250
# The pause between two fetches of few bytes: a request for every record would cost ten times the CPU.
_PAUSE_MS = 3
_PRODUCE_TIMEOUT_MS = 30_000
# The bounds of one partition in a request; the target accepts up to 1,000 batches.
_BATCHES_MAX = 900
_BYTES_MAX = 1024 * 1024
# A broker has a shorter path for newer versions, which does not check the writer. A mirror must be refused as soon as
# the topic is no longer its own.
_PRODUCE_VERSION_MAX = 8
_ACKS_ALL = -1


class ExactCopier:
    """Worker `number` of a flow. `run_id` names the run of the mirror to which the flow must belong."""

    def __init__(self, flow: FlowSettings, number: int, run_id: str | None = None) -> None:
        self._flow = flow
        self._source = Cluster(flow.source_client)
        self._target = Cluster(replace(flow.target_client, client_id=f"{MIRROR_CLIENT_ID_PREFIX}{flow.name}"))
        # Writes and reads of ordinary topics, under an ordinary client id.
        self._notes = Cluster(flow.target_client)
        self._ownership = Ownership(flow, self._notes, run_id)
        self._reader = PairReader(
            flow,
            number,
            self._source,
            self._target,
            ConsumerSettings(
                auto_offset_reset="earliest",
                auto_commit=False,
                allow_auto_create=False,
                keeps_control_batches=True,
                fetch_max_wait_ms=FETCH_WAIT_MS,
                fetch_pause_ms=_PAUSE_MS,
            ),
            has_driver=run_id is not None and not flow.role,
        )
        self._topics = TopicSync(flow, self._source, self._target)
        self._throttle = Throttle(flow.bytes_per_second / flow.tasks)
        self._origins: dict[TopicPartition, Origin] | None = None
        # Copies without a batch: their first batch may begin before the first record that the source still has.
        self._empty: set[TopicPartition] = set()
        self._deleted_before: dict[TopicPartition, int] = {}
        self._copies: set[str] = set()
        # The topic ids of the copies whose ends are the positions.
        self._copy_ids: dict[str, str] = {}
        # Ordinary topics of the target, with their ids: a topic that is made again may be a copy.
        self._released: dict[str, str] = {}

    async def run(self, should_stop: Callable[[], bool]) -> None:
        """Copies until it is stopped. Raises KafkaError or ClientError; a new copier resumes the copy."""
        try:
            while not should_stop():
                await self._ownership.check_when_due()
                if await self._ownership.topics_have_changed():
                    self._reader.refresh_soon(expects_change=True)
                await self._step()
        finally:
            await self._reader.close()
            await self._ownership.close()
            await asyncio.gather(self._source.close(), self._target.close(), self._notes.close())

    async def _step(self) -> None:
        await self._reader.refresh_when_due(self)
        if not self._reader.pairs:
            await asyncio.sleep(_IDLE_MS / 1000)
            return
        waiting: dict[TopicPartition, list[bytearray]] = defaultdict(list)
        for batch in await self._reader.batches(_IDLE_MS):
            pair = self._reader.pairs[batch.partition]
            if pair.target.topic not in self._released:
                waiting[pair.target].extend(self._continued(batch))
        while waiting:
            portions = {place: _portion(batches) for place, batches in waiting.items()}
            await self._throttle.pass_on(sum(len(portion) for portion in portions.values()))
            await self._write(portions)
            waiting = {
                place: batches for place, batches in waiting.items() if batches and place.topic not in self._released
            }
        if self._deleted_before:
            # The records that the source has deleted of its first batch. If this fails, the driver repeats it later.
            before = {
                place: offset for place, offset in self._deleted_before.items() if place.topic not in self._released
            }
            await Offsets(self._target).delete_records(before)
            self._deleted_before = {}

    def _continued(self, batch: ConsumedBatch) -> list[bytearray]:
        """The batch, behind an empty batch if the source has a gap before it."""
        place, reader = batch.partition, self._reader
        header, content = modern_batch(batch)
        expected = reader.next[place]
        if place in self._empty:
            self._empty.remove(place)
            if header.base_offset < expected:
                self._deleted_before[reader.pairs[place].target] = expected
                expected = header.base_offset
        if header.base_offset < expected:
            raise MirrorError(
                f"{self._flow.name}: the copy of {place} ends at {expected}, within a batch of the source that begins "
                f"at {header.base_offset}. It is no copy of this topic; delete it and let it be made again."
            )
        batches = []
        if header.base_offset > expected:
            batches.append(empty_batch(expected, header.base_offset))
        batches.append(mirrored_batch(content, header))
        reader.advance(place, header.next_offset)
        return batches

    async def _write(self, portions: dict[TopicPartition, bytes]) -> None:
        """Sends the portions to their leaders until all are written."""
        deadline = asyncio.get_running_loop().time() + self._target.settings.api_timeout_ms / 1000
        attempts = 0
        last: Exception | None = None
        while portions:
            self._check_copies({place.topic for place in portions})
            by_leader: dict[int, dict[TopicPartition, bytes]] = defaultdict(dict)
            for place, portion in portions.items():
                by_leader[self._target.metadata.leader_of(*place)][place] = portion
            answers = await asyncio.gather(
                *[self._ask(leader, led_portions) for leader, led_portions in by_leader.items()], return_exceptions=True
            )
            portions = {}
            for led_portions, answer in zip(by_leader.values(), answers, strict=True):
                if isinstance(answer, BaseException):
                    if not isinstance(answer, ClientError):
                        raise answer
                    last = answer
                    portions.update(led_portions)
                    continue
                for place, error in answer.items():
                    if error is not None:
                        if error.code is ErrorCode.POLICY_VIOLATION:
                            self._release(place.topic, str(error.message))
                            continue
                        self._check_retriable(place, error)
                        last = error
                        portions[place] = led_portions[place]
            if portions:
                if asyncio.get_running_loop().time() >= deadline:
                    assert last is not None
                    raise last
                attempts += 1
                await asyncio.sleep(self._target.settings.backoff_ms(attempts) / 1000)
                await self._target.refresh(sorted({place.topic for place in portions}))

    def _check_copies(self, topics: set[str]) -> None:
        """Raises if a copy was deleted and made again: an empty copy accepts a first batch at any offset."""
        for topic in topics:
            known, copy_id = self._target.metadata.topics.get(topic), self._copy_ids.get(topic)
            if known is not None and known.topic_id and copy_id and copy_id != str(known.topic_id):
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID, f"{topic} was deleted and made again")

    def _release(self, topic: str, reason: str) -> None:
        """Stops copying a topic. The other topics are still copied: a switch to the target may go topic by topic."""
        if topic not in self._released:
            logger.warning("%s: %s is not copied: %s", self._flow.name, topic, reason)
            known = self._target.metadata.topics.get(topic)
            self._released[topic] = str(known.topic_id) if known is not None else ""
            self._copies.discard(topic)
            self._reader.refresh_soon()

    def _check_retriable(self, place: TopicPartition, error: KafkaError) -> None:
        if error.code is ErrorCode.INVALID_RECORD:
            raise MirrorError(f"{self._flow.name}: {place} cannot be continued: {error.message}")
        if not error.code.retriable:
            raise KafkaError(error.code, f"{place}: {error.message}")

    async def _ask(self, leader: int, portions: dict[TopicPartition, bytes]) -> dict[TopicPartition, KafkaError | None]:
        if leader < 0:
            raise ConnectionLost("some partitions of the target have no leader at the moment")
        topics: dict[str, list[PartitionProduceData]] = defaultdict(list)
        for place, portion in portions.items():
            data = PartitionProduceData(index=place.partition, records=memoryview(portion))
            topics[place.topic].append(data)
        request = ProduceRequest(
            acks=_ACKS_ALL,
            timeout_ms=_PRODUCE_TIMEOUT_MS,
            topic_data=[TopicProduceData(name=name, partition_data=data) for name, data in topics.items()],
        )
        connection = await self._target.node_connection(leader, "produce")
        response: ProduceResponse = await connection.ask(
            request, timeout_ms=_PRODUCE_TIMEOUT_MS + 5_000, version_max=_PRODUCE_VERSION_MAX
        )
        return {
            TopicPartition(topic.name, answer.index): error_of(answer.error_code, answer.error_message)
            for topic in response.responses
            for answer in topic.partition_responses
        }

    # The rules of the reader.

    async def accept(self, candidates: list[Pair]) -> list[Pair]:
        """Pairs whose topic at the target is a copy of this flow."""
        for pair in candidates:
            if self._released.get(pair.target.topic, pair.target_topic_id) != pair.target_topic_id:
                del self._released[pair.target.topic]
        unknown = {pair.target.topic for pair in candidates} - self._copies - self._released.keys()
        for topic, is_copy in (await self._topics.exact_copies(unknown)).items():
            if is_copy:
                self._copies.add(topic)
            else:
                self._release(topic, f"its ottla.mirror.name is not {self._flow.name}")
        await self._note_origins([pair for pair in candidates if pair.target.topic in self._copies])
        accepted = [pair for pair in candidates if pair.target.topic in self._copies]
        self._copy_ids = {pair.target.topic: pair.target_topic_id for pair in accepted}
        return accepted

    async def before_new_pairs(self) -> None:
        return

    async def find_positions(self, new: list[Pair]) -> dict[TopicPartition, int]:
        """The ends of the copies. An empty copy begins where the source begins."""
        if not new:
            return {}
        ends = await Offsets(self._target).numbers([pair.target for pair in new], LATEST)
        positions = {pair.source: ends[pair.target] for pair in new if ends[pair.target] > 0}
        empty = [pair.source for pair in new if ends[pair.target] == 0]
        self._empty.update(empty)
        if empty:
            time = EARLIEST if self._flow.starts_at == "earliest" else LATEST
            positions.update(await Offsets(self._source).numbers(empty, time))
        return positions

    async def _note_origins(self, pairs: list[Pair]) -> None:
        """Stores the topic ids of every pair at the target, before its first batch.

        A copy of a topic that was deleted and made again cannot be continued, even if no mirror ran meanwhile: the new
        topic has other records at the same offsets.
        """
        if self._origins is None:
            reader = MapReader(self._notes, self._flow.source)
            try:
                await reader.refresh()
            finally:
                await reader.close()
            self._origins = dict(reader.origins)
        new: dict[TopicPartition, Origin] = {}
        for pair in pairs:
            known = self._origins.get(pair.source)
            if known is not None and known.topic_ids == pair.topic_ids:
                continue
            if known is not None and known.topic_ids.endswith(f"/{pair.target_topic_id}"):
                self._release(
                    pair.target.topic,
                    f"{pair.source.topic} was deleted and made again at the source. Its records have the offsets of "
                    f"the deleted ones: delete {pair.target.topic}, and it is copied again.",
                )
            else:
                new[pair.source] = Origin(0, pair.topic_ids)
        if new:
            async with Producer(self._notes, ProducerSettings(linger_ms=0)) as producer:
                for place, origin in new.items():
                    await producer.send(
                        map_topic(self._flow.source), origin.value(), key=origin.key(place), partition=0
                    )
            self._origins.update(new)


def _portion(batches: list[bytearray]) -> bytes:
    """Takes the first batches, as many as fit into a request."""
    size = count = 0
    for batch in batches:
        if count and (count == _BATCHES_MAX or size + len(batch) > _BYTES_MAX):
            break
        size += len(batch)
        count += 1
    portion = b"".join(batches[:count])
    del batches[:count]
    return portion
