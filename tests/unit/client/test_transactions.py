"""The state of a producer's transaction after errors; the coordinator answers by a script."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.client.errors import ClientError, TimedOut
from ottla.client.producer.producer import Producer
from ottla.client.producer.sequences import ProducerIdentity
from ottla.client.producer.settings import ProducerSettings
from ottla.client.producer.transaction_errors import ApplicationRecoverable
from ottla.client.producer.transactions import NO_TRANSACTION, TransactionManager, TransactionState
from ottla.client.settings import ClientSettings
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ottla.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

ONE = TopicPartition("t", 0)


class Cluster:
    TRANSACTION, GROUP = 1, 0

    def __init__(self, *, version: int) -> None:
        self.connection = SimpleNamespace(features={"transaction.version": version})
        self.epoch = 0
        self.asked: list[str] = []
        self.refusal: Exception | None = None
        self.on_end: Callable[[], None] = lambda: None

    async def any_connection(self) -> Any:
        return self.connection

    async def retry(self, attempt: Callable[[], Awaitable[Any]]) -> Any:
        return await attempt()

    async def ask_coordinator(self, _kind: int, _key: str, request: Any, *_: Any, **__: Any) -> Any:
        self.asked.append(type(request).__name__)
        if isinstance(request, InitProducerIdRequest):
            self.epoch += 1
            return InitProducerIdResponse(producer_id=5, producer_epoch=self.epoch)
        if isinstance(request, AddPartitionsToTxnRequest):
            return AddPartitionsToTxnResponse()
        if isinstance(request, EndTxnRequest):
            self.on_end()
            if request.producer_epoch != self.epoch:
                return EndTxnResponse(error_code=ErrorCode.PRODUCER_FENCED)
            self.epoch += self.connection.features["transaction.version"] >= 2
            return EndTxnResponse(producer_id=5, producer_epoch=self.epoch)
        if isinstance(request, TxnOffsetCommitRequest):
            assert self.refusal is not None
            raise self.refusal
        return AddOffsetsToTxnResponse()


def new_manager(version: int) -> tuple[TransactionManager, ProducerIdentity, Cluster]:
    identity, cluster = ProducerIdentity(), Cluster(version=version)
    anything: Any = cluster
    return TransactionManager(anything, ProducerSettings(transactional_id="x"), identity), identity, cluster


@pytest.mark.parametrize("version", [1, 2])
def test_sequence_numbers_restart_after_an_abort(version: int) -> None:
    async def scenario() -> None:
        transactions, identity, cluster = new_manager(version)
        await transactions.init()
        transactions.begin()
        await transactions.add_partitions([ONE])
        # The request was sent and given up: the leader may never have received it.
        identity.take(ONE, 3)
        transactions.on_failure(TimedOut("not delivered"))
        await transactions.end(commit=False)
        assert identity.epoch == cluster.epoch == 2
        assert identity.take(ONE, 1) == 0
        transactions.begin()
        await transactions.add_partitions([ONE])
        await transactions.end(commit=True)
        assert transactions.state is TransactionState.READY

    asyncio.run(scenario())


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("refusal", [TimedOut("late"), KafkaError(ErrorCode.ILLEGAL_GENERATION, "another has it")])
def test_without_its_offsets_a_transaction_is_not_committed(version: int, refusal: Exception) -> None:
    async def scenario() -> None:
        transactions, _, cluster = new_manager(version)
        cluster.refusal = refusal
        await transactions.init()
        transactions.begin()
        with pytest.raises(type(refusal)):
            await transactions.send_offsets("g", {ONE: 7})
        with pytest.raises(ClientError, match="must be aborted"):
            await transactions.end(commit=True)
        assert "EndTxnRequest" not in cluster.asked
        await transactions.end(commit=False)

    asyncio.run(scenario())


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("commit", [True, False])
def test_what_is_sent_while_a_transaction_ends_is_not_of_the_next_one(version: int, commit: bool) -> None:
    async def scenario() -> None:
        transactions, _, cluster = new_manager(version)
        refusals: list[str] = []

        def send() -> None:
            with pytest.raises(ClientError) as raised:
                transactions.check_open()
            refusals.append(str(raised.value))

        cluster.on_end = send
        await transactions.init()
        transactions.begin()
        await transactions.add_partitions([ONE])
        await transactions.end(commit=commit)
        assert len(refusals) == 1

    asyncio.run(scenario())


def test_a_record_that_fails_while_its_transaction_ends_spoils_it() -> None:
    async def scenario() -> None:
        transactions, _, cluster = new_manager(2)
        await transactions.init()
        transactions.begin()
        await transactions.add_partitions([ONE])
        transactions.close()
        transactions.on_failure(TimedOut("not delivered"))
        with pytest.raises(ClientError, match="must be aborted"):
            await transactions.end(commit=True)
        assert "EndTxnRequest" not in cluster.asked

    asyncio.run(scenario())


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("commit", [True, False])
def test_a_transaction_that_the_cluster_never_heard_of_is_not_ended_there(version: int, commit: bool) -> None:
    """The coordinator knows no such transaction."""

    async def scenario() -> None:
        transactions, _, cluster = new_manager(version)
        await transactions.init()
        transactions.begin()
        transactions.check_open()
        await transactions.end(commit=commit)
        assert cluster.asked == ["InitProducerIdRequest"]
        assert transactions.state is TransactionState.READY

    asyncio.run(scenario())


def test_an_unanswered_end_can_be_repeated() -> None:
    async def scenario() -> None:
        transactions, _, cluster = new_manager(2)

        def late() -> None:
            raise TimedOut("late")

        cluster.on_end = late
        await transactions.init()
        transactions.begin()
        await transactions.add_partitions([ONE])
        with pytest.raises(TimedOut):
            await transactions.end(commit=True)
        with pytest.raises(ClientError, match="between begin_transaction"):
            transactions.check_open()
        cluster.on_end = lambda: None
        await transactions.end(commit=True)
        assert transactions.state is TransactionState.READY

    asyncio.run(scenario())


def test_only_a_prepared_transaction_is_completed() -> None:
    async def scenario() -> None:
        cluster = Cluster(version=2)
        anything: Any = cluster
        two_phase = ProducerSettings(transactional_id="x", two_phase_commit=True)
        producer = Producer(ClientSettings(bootstrap_servers=()), two_phase)
        transactions = producer._transactions = TransactionManager(anything, two_phase, ProducerIdentity())
        transactions.state = TransactionState.READY
        transactions.begin()
        transactions.share()
        # Records may still be in the buffer: nothing was decided about them.
        with pytest.raises(ClientError, match="no prepared transaction to complete: the producer is open"):
            await producer.complete_transaction(NO_TRANSACTION)
        assert cluster.asked == []
        assert transactions.state is TransactionState.OPEN

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_a_commit_without_an_answer_can_be_repeated(version: int, code: ErrorCode) -> None:
    """An attempt may have been processed: an abort would be wrong."""

    async def scenario() -> None:
        transactions, _, cluster = new_manager(version)

        def refuse() -> None:
            raise KafkaError(code)

        await transactions.init()
        transactions.begin()
        await transactions.add_partitions([ONE])
        cluster.on_end = refuse
        with pytest.raises(KafkaError):
            await transactions.end(commit=True)
        cluster.on_end = lambda: None
        await transactions.end(commit=True)
        assert transactions.state is TransactionState.READY

    asyncio.run(scenario())


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH])
@pytest.mark.parametrize("call", ["commit", "abort", "send", "begin"])
def test_a_fenced_producer_says_so_in_every_call(code: ErrorCode, call: str) -> None:
    """The application decides by the class of the error (KIP-1050)."""

    async def scenario() -> None:
        transactions, _, _ = new_manager(2)
        await transactions.init()
        transactions.begin()
        await transactions.add_partitions([ONE])
        transactions.on_failure(KafkaError(code))

        async def make_call() -> None:
            if call == "send":
                transactions.check_open()
            elif call == "begin":
                transactions.begin()
            else:
                await transactions.end(commit=call == "commit")

        with pytest.raises(ApplicationRecoverable) as raised:
            await make_call()
        assert raised.value.code == code

    asyncio.run(scenario())
