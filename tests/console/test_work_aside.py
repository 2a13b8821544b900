"""Work on all partitions of a large cluster runs on a thread of its own, and pages go on meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

import ottla.testing
from ottla.client.admin import AdminClient
from ottla.client.admin.offsets import LATEST, FoundOffset
from ottla.client.admin.topics import NewTopic
from ottla.client.errors import ClientError
from ottla.client.settings import ClientSettings, parse_bootstrap
from ottla.console import view
from ottla.console.view import ClusterView
from ottla.model.ids import TopicPartition


@asynccontextmanager
async def opened(cluster: ottla.testing.Cluster) -> AsyncIterator[tuple[AdminClient, ClusterView]]:
    async with AdminClient(ClientSettings(bootstrap_servers=parse_bootstrap(cluster.bootstrap))) as admin:
        seen = ClusterView(admin)
        yield admin, seen
        await seen.close()


async def current_thread(_: AdminClient) -> threading.Thread:
    return threading.current_thread()


def test_the_state_of_a_large_cluster(cluster: ottla.testing.Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "LARGE_PARTITIONS", 1)
    used: list[threading.Thread] = []

    async def scenario() -> None:
        async with opened(cluster) as (admin, seen):
            await admin.topics.create([NewTopic(name="before", partitions=2)])
            first = await seen.state.get()
            assert "before" in first.topics
            used.append(await seen.run(current_thread))
            assert used[0].name == "ottla-client"
            await admin.topics.create([NewTopic(name="after", partitions=3)])
            seen.drop()
            state = await seen.state.get()
            assert {row.name: row.partitions for row in state.rows if row.name in ("before", "after")} == {
                "before": 2,
                "after": 3,
            }
            # The client of the pages has the leaders that the other client has learned.
            assert admin.connections.metadata.leader_of("after", 2) == 1
            last = TopicPartition("after", 2)
            assert isinstance((await admin.offsets.find({last: LATEST}))[last], FoundOffset)
            sizes = (await seen.sizes.get())[1]
            assert isinstance(sizes, list)
            assert last in sizes[0].replicas

    asyncio.run(scenario())
    # The thread ends with the view. Other tests of this process may have threads of the same name.
    assert [thread.is_alive() for thread in used] == [False]


def test_a_small_cluster_needs_no_thread(cluster: ottla.testing.Cluster) -> None:
    async def scenario() -> None:
        async with opened(cluster) as (_, seen):
            await seen.state.get()
            assert await seen.run(current_thread) is threading.current_thread()

    asyncio.run(scenario())


def test_errors_and_cancellation_pass_between_the_threads(
    cluster: ottla.testing.Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "LARGE_PARTITIONS", 0)
    ended = threading.Event()

    async def fail(_: AdminClient) -> None:
        raise ClientError("lost")

    async def wait(_: AdminClient) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def scenario() -> None:
        async with opened(cluster) as (_, seen):
            await seen.state.get()
            with pytest.raises(ClientError, match="lost"):
                await seen.run(fail)
            begun = asyncio.ensure_future(seen.run(wait))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(begun, 0.2)
            assert await asyncio.to_thread(ended.wait, 30)

    asyncio.run(scenario())
