"""All shards of one coordinator on this broker: one for each partition of its topic that the broker leads.

A `CoordinatorRuntime` follows the metadata as a publisher, after the replica manager: a partition that this broker
begins to lead gets a shard, which is loaded, and a partition that it no longer leads loses its shard. Callers submit a
decision for a key (the group id, the transactional id) and get the response, or an error that tells the client to find
the coordinator again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Generic, TypeVar

from ottla.coordinator.runtime.hashing import partition_for
from ottla.coordinator.runtime.loader import Loader
from ottla.coordinator.runtime.record_format import RecordFormat
from ottla.coordinator.runtime.shard import Shard, ShardSettings, ShardStatus
from ottla.coordinator.runtime.state import CoordinatorState
from ottla.decisions import Decide, Question, Timers, Turn
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage, TopicImage
from ottla.model.deferred import Deferred, gather
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ports import World
from ottla.replica.manager import ReplicaManager
from ottla.replica.markers import EndMarker

__all__ = ["CoordinatorRuntime"]

S = TypeVar("S", bound=CoordinatorState)
R = TypeVar("R")

# Shards that can answer now or after their load.
_ABLE_TO_ANSWER = (ShardStatus.ACTIVE, ShardStatus.LOADING)

# Shards that are loaded when the broker is named the leader again.
_WITHOUT_STATE = (ShardStatus.CLOSED, ShardStatus.FAILED)

# A question about a key takes some microseconds.
KEYS_PER_TURN = 1_000


class CoordinatorRuntime(Generic[S]):
    """Shards by partition of the state topic."""

    __slots__ = (
        "_format",
        "_load_buffer_bytes",
        "_new_state",
        "_partition_count",
        "_replicas",
        "_shards",
        "_turn",
        "_world",
        "settings",
        "topic",
    )

    def __init__(
        self,
        *,
        topic: str,
        record_format: RecordFormat,
        world: World,
        replicas: ReplicaManager,
        new_state: Callable[[int, Timers[S]], S],
        settings: ShardSettings,
        load_buffer_bytes: int,
    ) -> None:
        self.topic = topic
        self.settings = settings
        self._format = record_format
        self._world = world
        self._turn = Turn(world.scheduler)
        self._replicas = replicas
        replicas.late_logs.on_created.append(self._on_late_replicas)
        self._new_state = new_state
        self._load_buffer_bytes = load_buffer_bytes
        self._shards: dict[int, Shard[S]] = {}
        # Zero while the topic does not exist.
        self._partition_count = 0

    # Requests.

    def partition_of(self, key: str) -> int:
        """Raises COORDINATOR_NOT_AVAILABLE while the topic does not exist."""
        if not self._partition_count:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return partition_for(key, self._partition_count)

    @property
    def partition_count(self) -> int:
        return self._partition_count

    def submit(self, key: str, decide: Decide[S, R]) -> Deferred[R]:
        """`Shard.submit` of the key's shard."""
        try:
            shard = self.shard_of(key)
        except KafkaError as error:
            return Deferred.failed(error)
        return shard.submit(decide)

    def ask(self, key: str, question: Question[S, R]) -> Deferred[R]:
        """`Shard.ask` of the key's shard."""
        try:
            shard = self.shard_of(key)
        except KafkaError as error:
            return Deferred.failed(error)
        return shard.ask(question)

    def ask_all(
        self, keys_of: Callable[[S], Iterable[str]], question: Callable[[S, list[str]], list[R]]
    ) -> Deferred[list[R]]:
        """The answers of all shards to a question about all of their keys.

        The question is asked about `KEYS_PER_TURN` keys at a time, each time in another turn of the loop. Keys may have
        gone by then. Fails while a shard cannot answer, because half a list is a wrong answer. The error is
        COORDINATOR_NOT_AVAILABLE: a client that asks all coordinators has no coordinator to find again.
        """
        pending: list[Deferred[list[R]]] = []

        def on_error(error: KafkaError) -> list[list[R]]:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE) if error.code is ErrorCode.NOT_COORDINATOR else error

        all_asked = self._replicas.slices.start(self._ask_in_turns(keys_of, question, pending))
        answers = all_asked.and_then(lambda _: gather(pending)).recover(KafkaError, on_error)
        return answers.then(lambda lists: [answer for answers in lists for answer in answers])

    def _ask_in_turns(
        self,
        keys_of: Callable[[S], Iterable[str]],
        question: Callable[[S, list[str]], list[R]],
        pending: list[Deferred[list[R]]],
    ) -> Generator[None, None, None]:
        in_turn = 0
        for shard in [shard for shard in self.shards() if shard.status in _ABLE_TO_ANSWER]:
            keys = list(keys_of(shard.state))
            # A shard without keys is asked, too: it may not be able to answer.
            for start in range(0, len(keys) or 1, KEYS_PER_TURN):
                portion = keys[start : start + KEYS_PER_TURN]
                in_turn += len(portion)
                if in_turn > KEYS_PER_TURN:
                    in_turn = len(portion)
                    yield
                pending.append(shard.ask(lambda state, portion=portion: question(state, portion)))  # type: ignore[misc]

    def submit_to(self, index: int, decide: Decide[S, R]) -> Deferred[R]:
        shard = self._shards.get(index)
        if shard is None:
            return Deferred.failed(KafkaError(ErrorCode.NOT_COORDINATOR))
        return shard.submit(decide)

    def complete_transaction(self, index: int, marker: EndMarker) -> Deferred[None]:
        """See `Shard.complete_transaction`."""
        shard = self._shards.get(index)
        if shard is None:
            return Deferred.failed(KafkaError(ErrorCode.NOT_COORDINATOR))
        return shard.complete_transaction(marker)

    def shard_of(self, key: str) -> Shard[S]:
        """Raises NOT_COORDINATOR, also while the topic does not exist: the client has to find the coordinator first."""
        count = self._partition_count
        shard = self._shards.get(partition_for(key, count)) if count else None
        if shard is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return shard

    def shard_at(self, index: int, partition_count: int) -> Shard[S] | None:
        """`shard_of` for a key of this partition; None if the topic has another number of partitions by now."""
        return self._shards.get(index) if partition_count == self._partition_count else None

    def shards(self) -> Iterator[Shard[S]]:
        """All shards, in every status."""
        return iter(list(self._shards.values()))

    def active_shards(self) -> Iterator[Shard[S]]:
        return (shard for shard in self.shards() if shard.status is ShardStatus.ACTIVE)

    def invariants(self) -> None:
        for shard in self._shards.values():
            shard.invariants()

    # Following the metadata.

    def start(self, image: MetadataImage) -> None:
        topic = self._count_partitions(image)
        if topic is not None:
            self._follow(topic.partitions)

    def publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        self._count_partitions(image)
        for deleted in delta.topics.deleted.values():
            if deleted.name == self.topic:
                self.close()
        for changed in delta.topics.changed.values():
            if changed.name == self.topic:
                self._follow(changed.changed)

    def close(self) -> None:
        """Closes every shard; pending requests fail with NOT_COORDINATOR."""
        shards, self._shards = self._shards, {}
        for shard in shards.values():
            if shard.status is not ShardStatus.CLOSED:
                shard.close()

    def _count_partitions(self, image: MetadataImage) -> TopicImage | None:
        topic = image.topics.by_name.get(self.topic)
        self._partition_count = 0 if topic is None else len(topic.partitions)
        return topic

    def _on_late_replicas(self, topic: str, indexes: list[int]) -> None:
        """Replicas have got their logs after the metadata change that named them."""
        if topic == self.topic:
            self._follow(indexes)

    def _follow(self, indexes: Iterable[int]) -> None:
        for index in indexes:
            partition = self._replicas.get(self.topic, index)
            shard = self._shards.get(index)
            if partition is None or not partition.is_leader:
                if shard is not None:
                    del self._shards[index]
                    if shard.status is not ShardStatus.CLOSED:
                        shard.close()
            elif shard is None or shard.partition is not partition or shard.status in _WITHOUT_STATE:
                # If the shard is still there when a later epoch begins, no other broker has led in between.
                self._load(index)

    def _load(self, index: int) -> None:
        old = self._shards.get(index)
        if old is not None and old.status is not ShardStatus.CLOSED:
            old.close()
        partition = self._replicas.get(self.topic, index)
        assert partition is not None
        shard = self._shards[index] = Shard(
            index=index,
            partition=partition,
            world=self._world,
            record_format=self._format,
            settings=self.settings,
            turn=self._turn,
            new_state=self._new_state,
        )
        shard.on_reload = self._start_loading
        self._start_loading(shard)

    def _start_loading(self, shard: Shard[S]) -> None:
        Loader(shard, world=self._world, record_format=self._format, buffer_bytes=self._load_buffer_bytes).start()
