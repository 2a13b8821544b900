"""A record is delivered, or given up, within its delivery time-out, whatever the sender waits for."""

from __future__ import annotations

import asyncio

import pytest

from ottla.client.errors import TimedOut
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
