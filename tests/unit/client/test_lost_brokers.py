"""A leader that does not answer, or a cluster that is away: records are written once, in their order, and late."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.errors import ClientError, ClusterUnreachable, ConnectionLost, TimedOut
from ottla.client.metadata import MetadataCache, PartitionInfo, TopicInfo
from ottla.client.producer.accumulator import Accumulator
from ottla.client.producer.sender import Sender
from ottla.client.producer.sequences import ProducerIdentity
from ottla.client.producer.settings import ProducerSettings
from ottla.client.producer.transactions import TransactionManager
from ottla.client.settings import ClientSettings
from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.records.iterate import iterate_batches, iterate_records
from ottla.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse
from tests.unit.client import test_sender


class Log:
    """The replicated log of the partition, with the checks of Kafka's ProducerStateManager (five batches)."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.epoch = -1
        # First and last sequence, base offset.
        self.last: list[tuple[int, int, int]] = []

    def append(self, records: Any) -> tuple[int, int]:
        (batch,) = list(iterate_batches(memoryview(bytes(records))))
        header = batch.header
        first, last = header.base_sequence, header.base_sequence + header.record_count - 1
        if header.producer_epoch < self.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        if header.producer_epoch == self.epoch:
            for known in self.last:
                if known[:2] == (first, last):
                    return 0, known[2]
            if first != self.last[-1][1] + 1:
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        elif first != 0:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        else:
            self.last = []
        self.epoch = header.producer_epoch
        offset = len(self.values)
        self.last = [*self.last, (first, last, offset)][-5:]
        self.values += [bytes(record.value) for record in iterate_records(batch)]
        return 0, offset


class Node:
    def __init__(self, log: Log) -> None:
        self.log = log
        self.hangs = False
        self.dead = asyncio.Event()
        self.taken = 0

    async def post(self, request: Any, **_: Any) -> ProduceResponse:
        ((partition_data,),) = [topic.partition_data for topic in request.topic_data]
        code, offset = self.log.append(partition_data.records)
        self.taken += 1
        if self.hangs:
            await self.dead.wait()
            raise ConnectionLost("no answer within 30000 ms")
        await asyncio.sleep(0)
        answer = PartitionProduceResponse(index=0, error_code=code, base_offset=offset)
        return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[answer])])


class Cluster:
    def __init__(self, log: Log) -> None:
        self.nodes = {1: Node(log), 2: Node(log)}
        self.leader = 1
        self.settings = ClientSettings(bootstrap_servers=(), retry_backoff_ms=1)
        self.metadata = MetadataCache()
        self.tell()

    def tell(self) -> None:
        info = {0: PartitionInfo(0, self.leader, self.leader, (), (), ())}
        self.metadata.topics["t"] = TopicInfo("t", Uuid.ZERO, False, info, None)

    def is_connected(self, _node_id: int, _purpose: str) -> bool:
        return True

    async def node_connection(self, node_id: int, _purpose: str) -> Node:
        return self.nodes[node_id]

    async def refresh(self, _topics: list[str]) -> None:
        self.tell()


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0)


def scenario(unanswered: int, later: int) -> None:
    """Batches wait unanswered at the former leader, while more are sent. Kafka's leaders remember five batches."""

    async def run_producer() -> None:
        log = Log()
        cluster: Any = Cluster(log)
        settings = ProducerSettings(linger_ms=0, request_timeout_ms=1_000, delivery_timeout_ms=3_000)
        identity = ProducerIdentity()
        identity.set(5, 0)
        transactions = TransactionManager(cluster, settings, identity)
        batches = Accumulator(settings, transactions)
        sender = Sender(cluster, settings, batches, identity, transactions)
        await sender.start()
        numbers = itertools.count()

        def send() -> Any:
            return batches.append(cluster.metadata.topics["t"], b"%d" % next(numbers), None, (), 0, None, None)

        await send()
        old_leader = cluster.nodes[1]
        # The old leader writes and replicates, and its answers do not arrive.
        old_leader.hangs = True
        pending = []
        for number in range(unanswered):
            pending.append(send())
            await until(lambda n=number: old_leader.taken == n + 2)
        # The cluster elects another leader; the client learns of it from a metadata refresh, not from these requests.
        cluster.leader = 2
        cluster.tell()
        more = []
        for _ in range(later):
            more.append(send())
            await asyncio.sleep(0.02)
        # The requests to the old leader time out.
        old_leader.dead.set()
        outcomes = await asyncio.gather(*pending, *more, return_exceptions=True)
        await sender.stop()
        assert log.values == [b"%d" % n for n in range(1 + unanswered + later)]
        assert not [outcome for outcome in outcomes if isinstance(outcome, Exception)]

    asyncio.run(run_producer())


def test_one_unanswered_batch_is_not_written_twice() -> None:
    scenario(1, 6)


def test_four_unanswered_batches_are_not_reported_as_failed() -> None:
    scenario(4, 6)


@pytest.mark.parametrize("error", [ClusterUnreachable("The cluster cannot be reached."), TimedOut("It was late.")])
@pytest.mark.parametrize("connected", [True, False])
def test_records_wait_for_a_cluster_that_is_away(
    monkeypatch: pytest.MonkeyPatch, error: ClientError, connected: bool
) -> None:
    """Until delivery.timeout.ms."""
    failures = [error]

    class Away(test_sender.Cluster):
        def is_connected(self, _node_id: int, _purpose: str) -> bool:
            return connected

        async def node_connection(self, _node_id: int, _purpose: str) -> Any:
            if failures:
                raise failures.pop()
            return self.connection

    monkeypatch.setattr(test_sender, "Cluster", Away)

    async def work(sending: test_sender.Sending) -> None:
        await sending.send(b"1")

    test_sender.run(test_sender.accepts, work)
