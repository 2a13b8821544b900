"""Any interleaving of producers, slow followers, silent leaders and coordinators that lose what was not committed: each
partition that was confirmed gets a marker, and the one that the producer was told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, NamedTuple

import pytest

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition
from ottla.wire.messages import metadata_records as r
from ottla.wire.messages.init_producer_id import InitProducerIdRequest
from tests.support.transaction_path import STATE_TOPIC, Producer, TransactionPath

PARTITIONS = (TopicPartition("t", 0), TopicPartition("t", 1))
STEPS = 300
# The last seeds fail if a coordinator confirms uncommitted state.
SEEDS = (*range(12), 30, 55, 75)


class Confirmed(NamedTuple):
    """A producer may write to the partition from here on."""

    partition: TopicPartition
    producer_id: int
    epoch: int
    # The number of markers that were written before.
    markers_before: int


class Actor:
    """One transactional id, whose producer sends one request after the other."""

    def __init__(self, path: TransactionPath, name: str, version: int) -> None:
        self.path = path
        self.producer = Producer(path, name, version=version, timeout_ms=20_000)
        self.is_waiting = False
        # The requested end whose decision is not known yet; the producer sends nothing else before.
        self.ending: bool | None = None
        self.open: list[Confirmed] = []
        # How each transaction ended; None where the producer does not know.
        self.ended: list[tuple[Confirmed, bool | None]] = []

    def init(self) -> None:
        """A new instance: the open transaction is aborted unless its end was requested and is decided."""
        request = InitProducerIdRequest(
            transactional_id=self.producer.transactional_id, transaction_timeout_ms=self.producer.timeout_ms
        )
        self._send(self.path.begin(request), self._on_init)

    def add(self, partition: TopicPartition) -> None:
        if self.producer.producer_id >= 0 and self.ending is None:
            answer = self.path.begin(self.producer.add_request(partition), 5 if self.producer.version >= 2 else 3)
            self._send(answer, lambda response: self._on_added(partition, response))

    def end(self, *, commits: bool) -> None:
        if self.open:
            self.ending = wanted = commits if self.ending is None else self.ending
            self._send(self.producer.begin_end(commits=wanted), lambda response: self._on_end(wanted, response))

    def _send(self, answer: Deferred[Any], on_answer: Callable[[Any], None]) -> None:
        self.is_waiting = True

        def on_done(done: Deferred[Any]) -> None:
            self.is_waiting = False
            on_answer(done.result())

        answer.when_done(on_done)

    def _on_init(self, response: Any) -> None:
        if not response.error_code:
            self.producer.producer_id, self.producer.epoch = response.producer_id, response.producer_epoch
            self._forget(None)

    def _on_added(self, partition: TopicPartition, response: Any) -> None:
        if self.producer.added(response) is ErrorCode.NONE and all(
            confirmed.partition != partition for confirmed in self.open
        ):
            producer = self.producer
            self.open.append(Confirmed(partition, producer.producer_id, producer.epoch, len(self.path.leaders.written)))

    def _on_end(self, commits: bool, response: Any) -> None:
        if not response.error_code:
            self._forget(commits)
            if self.producer.version >= 2:
                self.producer.producer_id, self.producer.epoch = response.producer_id, response.producer_epoch
        elif response.error_code in (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_TXN_STATE):
            # Its time was over.
            self._forget(None)

    def _forget(self, commits: bool | None) -> None:
        self.ended += [(confirmed, commits) for confirmed in self.open]
        self.open.clear()
        self.ending = None

    def check(self) -> None:
        """After everything has come to its end."""
        self._forget(None)
        for confirmed, commits in self.ended:
            results = [
                marker.is_commit
                for marker in self.path.leaders.written[confirmed.markers_before :]
                if marker.partition == confirmed.partition
                and marker.producer_id == confirmed.producer_id
                and marker.producer_epoch >= confirmed.epoch + (self.producer.version >= 2)
            ]
            assert results, f"{confirmed} is never ended"
            assert commits in (None, results[0]), f"{confirmed} is told {commits}"


class Story:
    def __init__(self, path: TransactionPath, random: Random) -> None:
        self.path = path
        self.random = random
        topic = path.image.topics.by_name[STATE_TOPIC]
        self.topic_id, self.indexes = topic.topic_id, list(topic.partitions)
        self._change(replicas=[1, 2], isr=[1, 2])
        path.leaders.moved = {PARTITIONS[1]: 2}
        self.actors = [Actor(path, "x", 1), Actor(path, "y", 2)]

    def go_on(self) -> str:
        random = self.random
        actor = random.choice(self.actors)
        steps = {"send": 20, "follow": 6, "pass time": 5, "fail over": 2, "hold markers": 1, "let markers go": 3}
        (step,) = random.choices(list(steps), list(steps.values()))
        if step == "send" and not actor.is_waiting:
            kind = random.choice(("init", "add", "add", "add", "end", "end"))
            if kind == "init" and (actor.producer.producer_id < 0 or random.random() < 0.2):
                actor.init()
            elif kind == "add":
                actor.add(random.choice(PARTITIONS))
            elif kind == "end":
                actor.end(commits=random.random() < 0.6)
        elif step == "follow":
            self.follow()
        elif step == "pass time":
            self.path.advance(random.choice((20, 100, 500, 3_000, 21_000)))
        elif step == "fail over":
            self.fail_over()
        elif step == "hold markers":
            self.path.leaders.silent.add(random.choice((1, 2)))
        elif step == "let markers go":
            self.let_markers_go()
        self.path.run()
        return step

    def follow(self) -> None:
        for index in self.indexes:
            partition = self.path.partition(STATE_TOPIC, index)
            partition.on_follower_fetch(
                2, fetch_offset=partition.log.log_end_offset, log_start_offset=0, now_ms=self.path.virtual.clock.ms
            )
        self.path.run()

    def fail_over(self) -> None:
        """Fails over to a coordinator that has the committed records only, and back."""
        self._change(leader=2)
        for index in self.indexes:
            log = self.path.partition(STATE_TOPIC, index).log
            log.truncate_to(log.high_watermark)
        self._change(leader=1)

    def let_markers_go(self) -> None:
        self.path.leaders.silent.clear()
        self.path.leaders.release()

    def come_to_the_end(self) -> None:
        """Repairs all faults and waits for longer than transactions may be open."""
        for _ in range(30):
            self.let_markers_go()
            self.path.advance(2_000)
            self.follow()
        for actor in self.actors:
            assert not actor.is_waiting
            actor.check()

    def _change(self, **fields: Any) -> None:
        self.path.commit(
            *(r.PartitionChangeRecord(topic_id=self.topic_id, partition_id=index, **fields) for index in self.indexes)
        )
        self.path.run()


@pytest.fixture
def replicated(log_directory: str) -> Iterator[TransactionPath]:
    path = TransactionPath(log_directory, properties={"request.timeout.ms": "3000"})
    path.set_transaction_version(2)
    path.create_topic("t", 2)
    path.create_state_topic()
    yield path
    path.stop()


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_confirmed_ends_as_it_was_told(replicated: TransactionPath, seed: int) -> None:
    story = Story(replicated, Random(seed))
    for _ in range(STEPS):
        story.go_on()
    story.come_to_the_end()
