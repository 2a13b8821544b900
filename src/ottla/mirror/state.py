"""The state of a flow, durable at its target: the run that copies, and whether clients have switched to the target.

The state is a record of the compacted topic `mm2-flow-state.SOURCE.internal`. Every change is a transaction of the
transactional id `mirror-state-SOURCE-TARGET`: the writer fences other writers, reads the state, decides and commits.
So two commands never decide from the same state. A worker reads the state after its own fencing, and ends when the
flow belongs to another run or was failed over.

A second kind of record holds, for every copied topic, where the two sides parted: the positions that a failback needs.
A third kind announces to workers that topics have changed.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from ottla.client.admin.offsets import LATEST, Offsets
from ottla.client.admin.topics import NewTopic, Topics
from ottla.client.cluster import Cluster
from ottla.client.consumer import Consumer, ConsumerSettings
from ottla.client.producer import Producer, ProducerSettings
from ottla.mirror.settings import FlowSettings, MirrorError
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["FlowEnded", "FlowState", "FlowStates", "Parting", "Phase", "state_topic"]

_FENCED = (ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE)
_ATTEMPTS_MAX = 10
_TRANSACTION_TIMEOUT_MS = 30_000
_READ_WAIT_MS = 1_000


class FlowEnded(MirrorError):
    """The flow does not belong to this run any more; the message has the reason."""


class Phase(Enum):
    RUNNING = "running"
    FAILING_OVER = "failing over"
    FAILED_OVER = "failed over"
    FAILING_BACK = "failing back"


@dataclass(frozen=True, slots=True)
class Parting:
    """Where the two sides of a partition parted at a failover."""

    source_position: int
    """Records of the source below this offset were copied, or belong to a transaction that was open."""
    target_end: int
    """Records of the target from this offset on were written by clients there."""
    open_transactions: Mapping[int, int] = field(default_factory=dict)
    """Producer ids at the target and first offsets of transactions that were cut off (exact copies only)."""
    source_end: int = 0
    """The end of the source when a failback began: records from `source_position` to here were left behind."""
    cut_until: int = 0
    """Source offsets below this one may hold records that came back from the target in a failback."""


@dataclass(frozen=True, slots=True)
class FlowState:
    """The state of a flow. `run_id` is empty if the flow was never started."""

    phase: Phase = Phase.RUNNING
    run_id: str = ""
    since_ms: int = 0
    partings: Mapping[str, Mapping[int, Parting]] = field(default_factory=dict)
    """By topic of the source and partition."""
    return_mode: str = ""
    """How a failback that has begun copies back: an `OffsetMode`."""

    def enter(self, phase: Phase, run_id: str) -> FlowState:
        return replace(self, phase=phase, run_id=run_id, since_ms=time.time_ns() // 1_000_000)

    def parting(self, place: TopicPartition) -> Parting | None:
        return self.partings.get(place.topic, {}).get(place.partition)


def state_topic(source: str) -> str:
    return f"mm2-flow-state.{source}.internal"


class FlowStates:
    """Reads and changes the state of one flow."""

    def __init__(self, flow: FlowSettings, target: Cluster) -> None:
        self._flow = flow
        self._target = target
        self._place = TopicPartition(state_topic(flow.source), 0)
        self._reading = asyncio.Lock()
        self._consumer: Consumer | None = None
        self._head: dict[str, object] = {}
        self._partings: dict[str, Mapping[int, Parting]] = {}
        self._news_key = f"{flow.state_name} topics".encode()
        self._has_news = False

    async def create_topic(self) -> None:
        brokers = len((await self._target.refresh([])).brokers)
        new = NewTopic(
            name=self._place.topic,
            partitions=1,
            replication_factor=min(self._flow.internal_replication_factor, max(1, brokers)),
            configs={"cleanup.policy": "compact"},
        )
        for result in (await Topics(self._target).create([new])).values():
            if isinstance(result, KafkaError) and result.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise result

    async def read(self) -> FlowState:
        """The present state. Repeated calls read only the new records."""
        async with self._reading:
            return await self._read()

    async def _read(self) -> FlowState:
        try:
            end = (await Offsets(self._target).numbers([self._place], LATEST, committed=True))[self._place]
        except KafkaError as error:
            if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                return FlowState()
            raise
        if self._consumer is None:
            self._consumer = Consumer(
                self._target, ConsumerSettings(auto_offset_reset="earliest", auto_commit=False, read_committed=True)
            )
            await self._consumer.assign([self._place])
        while self._consumer.position(self._place) < end:
            for record in await self._consumer.poll(_READ_WAIT_MS):
                self._apply(record.key or b"", record.value)
        return self._state()

    async def announce_topics(self, producer: Producer) -> None:
        """Announces to all workers of the flow that topics or partitions have changed."""
        await producer.send_and_wait(self._place.topic, b"", key=self._news_key, partition=0)

    async def topics_have_changed(self) -> bool:
        """True if there was an announcement since the last call. It costs no request: the consumer reads ahead."""
        if self._consumer is not None and not self._reading.locked():
            async with self._reading:
                for record in await self._consumer.poll(0):
                    self._apply(record.key or b"", record.value)
        has_news, self._has_news = self._has_news, False
        return has_news

    async def change(self, decide: Callable[[FlowState], FlowState]) -> FlowState:
        """Replaces the state by the result of `decide`. Exceptions of `decide` change nothing."""
        for attempt in range(_ATTEMPTS_MAX):
            producer = Producer(
                self._target,
                ProducerSettings(
                    transactional_id=f"mirror-state-{self._flow.source}-{self._flow.target}",
                    transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS,
                    linger_ms=0,
                ),
            )
            try:
                await producer.init_transactions()
                before = await self.read()
                after = decide(before)
                producer.begin_transaction()
                for key, value in _records(self._flow.state_name, before, after):
                    await producer.send(self._place.topic, value, key=key, partition=0)
                await producer.commit_transaction()
            except KafkaError as error:
                if error.code not in _FENCED or attempt == _ATTEMPTS_MAX - 1:
                    raise
            else:
                return after
            finally:
                await producer.close(flush=False)
        raise AssertionError("the last attempt returns or raises")

    async def claim(self, run_id: str) -> FlowState:
        """Makes a run the owner of the flow's work. Raises FlowEnded if clients have switched to the target."""

        def decide(state: FlowState) -> FlowState:
            if state.phase is not Phase.RUNNING:
                raise FlowEnded(self._refusal(state))
            return state.enter(Phase.RUNNING, run_id)

        await self.create_topic()
        return await self.change(decide)

    async def check_owner(self, run_id: str) -> FlowState:
        """Raises FlowEnded unless the run may copy."""
        state = await self.read()
        if state.run_id == run_id and state.phase in (Phase.RUNNING, Phase.FAILING_BACK):
            return state
        if state.phase is Phase.RUNNING:
            raise FlowEnded(f"{self._flow.name}: another mirror has taken over. A flow runs once; stop one of them.")
        raise FlowEnded(self._refusal(state))

    async def close(self) -> None:
        if self._consumer is not None:
            await self._consumer.close()

    def _refusal(self, state: FlowState) -> str:
        flow = self._flow
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(state.since_ms / 1000))
        steps = {
            Phase.FAILING_OVER: f"a failover began at {when} UTC; repeat `ottla mirror failover` to finish it",
            Phase.FAILED_OVER: f"it was failed over at {when} UTC, and clients use {flow.target}; "
            "`ottla mirror failback` brings them back",
            Phase.FAILING_BACK: f"a failback began at {when} UTC; repeat `ottla mirror failback` to finish it",
        }
        return f"{flow.name} is not copied: {steps[state.phase]}."

    def _apply(self, key: bytes, value: bytes | None) -> None:
        if key == self._news_key:
            self._has_news = True
            return
        name, _, topic = key.decode(errors="replace").partition("\0")
        if name != self._flow.state_name:
            return
        if not topic:
            self._head = json.loads(value) if value else {}
        elif value:
            self._partings[topic] = {
                int(number): Parting(row[0], row[1], {int(pid): first for pid, first in row[2].items()}, *row[3:])
                for number, row in json.loads(value).items()
            }
        else:
            self._partings.pop(topic, None)

    def _state(self) -> FlowState:
        if not self._head:
            return FlowState(partings=dict(self._partings))
        return FlowState(
            Phase(self._head["phase"]),
            str(self._head["run"]),
            int(str(self._head["since_ms"])),
            dict(self._partings),
            str(self._head["return"]),
        )


def _records(name: str, before: FlowState, after: FlowState) -> list[tuple[bytes, bytes | None]]:
    """The records of a change: the partings that differ, and the state itself last."""
    records: list[tuple[bytes, bytes | None]] = []
    for topic in sorted({*before.partings, *after.partings}):
        partings = after.partings.get(topic)
        if partings != before.partings.get(topic):
            value = None if partings is None else _encode(partings)
            records.append((f"{name}\0{topic}".encode(), value))
    head = {
        "phase": after.phase.value,
        "run": after.run_id,
        "since_ms": after.since_ms,
        "return": after.return_mode,
    }
    records.append((name.encode(), json.dumps(head).encode()))
    return records


def _encode(partings: Mapping[int, Parting]) -> bytes:
    numbers = {
        str(number): [
            parting.source_position,
            parting.target_end,
            dict(parting.open_transactions),
            parting.source_end,
            parting.cut_until,
        ]
        for number, parting in partings.items()
    }
    return json.dumps(numbers).encode()
