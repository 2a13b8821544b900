"""A record is delivered, or given up, within its delivery time-out, whatever the sender waits for."""

from __future__ import annotations

import asyncio

import pytest

from ottla.client.errors import ClientError, TimedOut
from ottla.client.producer import Producer, ProducerSettings
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from tests.unit.client.test_sender import Sending, SlowCluster, accepts, run, run_slowly, until


def test_a_search_for_a_leader_delays_no_other_partition() -> None:
    async def work(sending: Sending) -> None:
        cluster, is_over = sending.cluster, asyncio.Event()

        async def refresh(_topics: list[str]) -> None:
            cluster.refreshed += 1
            await is_over.wait()
            cluster.tell()

        cluster.refresh = refresh  # type: ignore[assignment, method-assign]
        cluster.metadata.forget_leader(TopicPartition("t", 1))
        homeless = sending.send(b"x", 1)
        await until(lambda: cluster.refreshed == 1)
        assert (await sending.send(b"y", 0)).offset == 0
        given_up = sending.send(b"z", 1)
        sending.batches.queues[TopicPartition("t", 1)].closed[0].created -= 1_000
        with pytest.raises(TimedOut):
            await homeless
        assert cluster.refreshed == 1
        is_over.set()
        assert (await given_up).offset == 1

    run(accepts, work)


def test_a_record_does_not_wait_longer_for_a_connection_than_for_its_delivery() -> None:
    async def work(sending: Sending, cluster: SlowCluster) -> None:
        cluster.is_connected = lambda *_: False  # type: ignore[method-assign]
        cluster.connected.clear()
        late = sending.send(b"x")
        await until(lambda: cluster.asked_for_connection == 1)
        late.batch.created -= 119.9
        sending.batches.wake.set()
        with pytest.raises(TimedOut):
            await late
        cluster.connected.set()

    assert run_slowly(accepts, work) == []


def test_a_record_whose_topic_has_an_error_tells_it_when_it_is_given_up() -> None:
    async def work(sending: Sending) -> None:
        metadata = sending.cluster.metadata
        refused = KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Not this topic.")
        homeless = sending.send(b"x")
        metadata.topics["t"] = metadata.topics["t"]._replace(partitions={}, error=refused)
        homeless.batch.created -= 1_000
        with pytest.raises(TimedOut, match="TOPIC_AUTHORIZATION_FAILED: Not this topic"):
            await homeless

    assert run(accepts, work).requests == []


def test_a_batch_in_flight_is_not_sent_again_while_its_transaction_is_aborted() -> None:
    async def work(sending: Sending) -> None:
        sending.cluster.connection.answering.clear()
        delivery = sending.send(b"x")
        await until(lambda: bool(sending.cluster.connection.requests))
        sending.sender.gives_up = True
        sending.cluster.connection.answering.set()
        with pytest.raises(KafkaError):
            await delivery

    assert len(run(lambda *_: ErrorCode.NOT_LEADER_OR_FOLLOWER, work, waits=True).requests) == 1


@pytest.mark.parametrize("fails", [False, True])
def test_an_abort_sends_nothing_again_until_it_has_all_answers(fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        settings = ProducerSettings(transactional_id="x")
        producer = Producer(ClientSettings(bootstrap_servers=parse_bootstrap("localhost:1")), settings)
        given_up: list[bool] = []

        async def flush() -> None:
            given_up.append(producer._sender.gives_up)
            if fails:
                raise TimedOut("late")

        monkeypatch.setattr(producer, "flush", flush)
        # Without a transaction, the abort is refused at its end.
        with pytest.raises(TimedOut if fails else ClientError):
            await producer.abort_transaction()
        assert given_up == [True]
        assert not producer._sender.gives_up
        await producer.close(flush=False)

    asyncio.run(work())
