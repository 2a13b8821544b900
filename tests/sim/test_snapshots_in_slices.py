"""A running node that was away gets a snapshot of the metadata, and serves its clients while it loads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ottla.metadata import follower, image_step
from ottla.metadata.follower import MetadataFollower
from ottla.sim.client import SimClient
from ottla.sim.cluster import ClusterLayout, SimCluster
from ottla.sim.kernel import SECOND_US, Kernel
from ottla.sim.plans import plan_of
from ottla.sim.scenario import run_plan
from ottla.sim.tasks import Task, sleep
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.metadata import MetadataRequest, MetadataResponse

SETTINGS = {
    "internal.metadata.log.segment.bytes": "1000",
    "metadata.log.max.record.bytes.between.snapshots": "1000",
    "metadata.max.retention.bytes": "1",
}
TOPICS = 20
# The duration of a slice. Computing takes no time in the simulator.
SLICE_SECONDS = 0.005


class Absence:
    """Topics are created while a node is cut off from the others."""

    def __init__(self, *, controllers: int) -> None:
        self.kernel = Kernel(7)
        nodes = max(controllers, 2)
        self.cluster = SimCluster(self.kernel, ClusterLayout(nodes=nodes, controllers=controllers, settings=SETTINGS))
        self.cluster.start()
        self.run(10)
        assert self.cluster.all_serve
        self.away = next(node for node in reversed(self.cluster.nodes.values()) if not self.is_active(node))
        self.others = [node for node in self.cluster.nodes.values() if node is not self.away]
        self.client = SimClient(self.cluster, "client", 1)

    @staticmethod
    def is_active(node: Any) -> bool:
        return node.broker.quorum is not None and node.broker.quorum.is_leading

    def run(self, seconds: float) -> None:
        self.kernel.run_until(self.kernel.now_us + round(seconds * SECOND_US))

    def do(self, work: Callable[[], Any], *, seconds: float) -> Task:
        task = Task(self.client.process, "work", work(), self.cluster.report_defect)
        self.run(seconds)
        return task

    def cut(self) -> None:
        for node in self.others:
            self.cluster.network.block(node.host, self.away.host)
            self.cluster.network.block(self.away.host, node.host)

    def heal(self) -> None:
        self.cluster.network.heal()

    async def create(self) -> None:
        endpoint = next(
            endpoint for endpoint in self.cluster.endpoints if self.is_active(self.cluster.node_at(endpoint.host))
        )
        for number in range(TOPICS):
            topic = CreatableTopic(name=f"meanwhile-{number}", num_partitions=3, replication_factor=1)
            request = CreateTopicsRequest(topics=[topic], timeout_ms=4000)
            answer = await self.client.ask(endpoint, request, CreateTopicsResponse)
            assert not answer.topics[0].error_code


@pytest.mark.parametrize("controllers", [1, 3])
def test_a_node_that_was_away_serves_clients_while_it_loads_a_snapshot(
    controllers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "RECORDS_PER_TURN", 4)
    monkeypatch.setattr(image_step, "PARTITIONS_PER_SLICE", 10)
    absence = Absence(controllers=controllers)
    loading: dict[MetadataFollower, bool] = {}

    def plan(self: MetadataFollower) -> None:
        loading[self] = self._loading is not None
        if not self._is_planned:
            self._is_planned = True
            self._scheduler.call_later(SLICE_SECONDS, self._continue)

    monkeypatch.setattr(MetadataFollower, "_plan", plan)
    absence.cut()
    assert absence.do(absence.create, seconds=5).is_done
    broker = absence.away.broker
    assert broker is not None
    published: list[int] = []
    before = len(broker.metadata.image.topics.by_name)

    class Watcher:
        def publish(self, delta: Any, image: Any) -> None:
            published.append(len(image.topics.by_name))

    broker.metadata.add(Watcher())  # type: ignore[attr-defined]
    seen: list[tuple[bool, int]] = []
    endpoint = next(endpoint for endpoint in absence.cluster.endpoints if endpoint.host == absence.away.host)

    async def look() -> None:
        while True:
            response = await absence.client.ask(endpoint, MetadataRequest(topics=None), MetadataResponse)
            topics = sum(topic.name is not None and "meanwhile" in topic.name for topic in response.topics)
            is_loading = any(loading.values()) and len(published) == 0
            seen.append((is_loading, topics))
            await sleep(absence.client.process, 0.001)

    absence.heal()
    absence.do(look, seconds=15)
    assert broker is absence.away.broker, "the node ran all the time"
    assert not absence.cluster.findings
    while_loading = [topics for is_loading, topics in seen if is_loading]
    # Some 80 records in slices of four, and a partition's comparison after them.
    assert len(while_loading) > 20
    # A snapshot is published as a whole, and what was committed after it comes after it.
    assert set(while_loading) == {0}
    assert {topics for _, topics in seen} <= {0, published[0] - before, TOPICS}
    assert published[0] - before > TOPICS // 2
    assert seen[-1] == (False, TOPICS)


@pytest.mark.parametrize("seed", [3, 11, 12])
def test_clusters_that_load_everything_in_small_slices_promise_what_others_do(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower, "RECORDS_PER_TURN", 2)
    monkeypatch.setattr(image_step, "PARTITIONS_PER_SLICE", 1)
    outcome = run_plan(plan_of(seed, nodes=3, seconds=10.0))
    assert not outcome.findings
    assert outcome.counts["batch acknowledged"] > 0
