"""`python -m ottla.sim.scale 5 50 200`: the cost of clusters of many nodes, in virtual time, events and requests.

For each number of nodes a fresh cluster, with three controllers and some partitions for each node. Virtual time has the
delays of the network, of syncs and of timers, and no cost of computing: a figure that grows with the number of nodes is
a property of the protocol. Events and requests are the total work of all nodes.
"""

from __future__ import annotations

import logging
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ottla.metadata.image import MetadataImage
from ottla.sim.checkers.healing import unhealed_part
from ottla.sim.cluster import ClusterLayout, SimCluster
from ottla.sim.history import History
from ottla.sim.kernel import SECOND_US, Kernel
from ottla.sim.node import SimNode
from ottla.sim.workloads.topics import CreateTopics
from ottla.sim.workloads.workload import Stage, Workload
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)

__all__ = ["Phase", "main", "measure"]

SEED = 1
CONTROLLERS = 3
REPLICAS = 3
PARTITIONS_PER_NODE = 5
TOPIC = "wide"
IDLE_SECONDS = 5.0
SMALL_TOPICS = 5
# The resolution of the measured times.
SLICE_US = 1_000
FINE_SLICE_US = 50
SECONDS_MAX = 120.0
# A node that was killed for a measurement stays away until it is over.
AWAY_SECONDS = (600.0, 601.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    """One measured part of a run."""

    name: str
    virtual_seconds: float
    events: int
    # The number of requests that nodes have received.
    requests: int
    # The time of this machine.
    real_seconds: float


class NotReached(Exception):
    """The awaited state did not come within the limit."""


class Drain(Workload):
    """Moves every replica of one node elsewhere, with one request."""

    def __init__(self, stage: Stage, name: str, image: MetadataImage, node_id: int) -> None:
        super().__init__(stage, name)
        self._image = image
        self._node_id = node_id
        self.moves = 0

    async def run(self) -> None:
        nodes = sorted(self.stage.cluster.nodes)
        topics = []
        for topic in self._image.topics.by_id.values():
            rows = []
            for index, row in topic.partitions.items():
                if self._node_id in row.replicas:
                    candidates = [node for node in nodes if node not in row.replicas]
                    new = self.random.choice(candidates)
                    replicas = [new if node == self._node_id else node for node in row.replicas]
                    rows.append(ReassignablePartition(partition_index=index, replicas=replicas))
            self.moves += len(rows)
            if rows:
                topics.append(ReassignableTopic(name=topic.name, partitions=rows))
        request = AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=30_000)
        response = await self.client.ask_any(request, AlterPartitionReassignmentsResponse)
        assert not response.error_code, response.error_message


class ScaleRun:
    """A cluster, and its measured phases."""

    def __init__(self, nodes: int) -> None:
        self._kernel = Kernel(SEED)
        self._cluster = SimCluster(self._kernel, ClusterLayout(nodes=nodes, controllers=CONTROLLERS, settings={}))
        self._stage = Stage(cluster=self._cluster, history=History())
        self._requests = 0
        self._topics = 0
        self.phases: list[Phase] = []
        for node in self._cluster.nodes.values():
            node.on_request = self._on_request

    def run(self) -> list[Phase]:
        nodes = len(self._cluster.nodes)
        with self._phase("start"):
            self._cluster.start()
            self._wait(lambda: self._cluster.all_serve)
        with self._phase(f"create {nodes * PARTITIONS_PER_NODE} partitions"):
            self._create({TOPIC: nodes * PARTITIONS_PER_NODE}, min(REPLICAS, nodes))
            self._wait(lambda: all(self._knows(TOPIC)))
            self._wait(lambda: unhealed_part(self._cluster) is None, every_us=10 * SLICE_US)
        with self._phase(f"{IDLE_SECONDS:.0f} idle seconds"):
            self._advance(IDLE_SECONDS)
        self._propagate()
        self._drain_a_node()
        self._kill_a_broker()
        self._kill_the_controller()
        assert not self._cluster.findings, self._cluster.findings[:3]
        return self.phases

    # -- the measurements ------------------------------------------------------------------------------------------

    def _propagate(self) -> None:
        """Measures the time from the first node that has a new topic to the last node."""
        samples: list[Phase] = []
        for _ in range(SMALL_TOPICS):
            workload, name = self._new_topic()
            self._wait(lambda name=name: any(self._knows(name)), every_us=FINE_SLICE_US)  # type: ignore[misc]
            with self._phase("a new topic: from the first node that knows it to the last"):
                self._wait(lambda name=name: all(self._knows(name)), every_us=FINE_SLICE_US)  # type: ignore[misc]
            samples.append(self.phases.pop())
            self._wait(lambda workload=workload: workload.is_done)  # type: ignore[misc]
        self.phases.append(
            Phase(
                name=samples[0].name,
                virtual_seconds=statistics.median(phase.virtual_seconds for phase in samples),
                events=round(statistics.median(phase.events for phase in samples)),
                requests=round(statistics.median(phase.requests for phase in samples)),
                real_seconds=sum(phase.real_seconds for phase in samples),
            )
        )

    def _drain_a_node(self) -> None:
        victim = self._brokers()[-1]
        drain = Drain(self._stage, "drain", self._newest_image(), victim.node_id)

        def is_empty() -> bool:
            return drain.is_done and all(
                victim.node_id not in row.replicas and not row.is_reassigning
                for image in self._images()
                for topic in image.topics.by_id.values()
                for row in topic.partitions.values()
            )

        with self._phase("reassign"):
            drain.start()
            self._wait(is_empty, every_us=20 * SLICE_US)
        self._rename(f"reassign {drain.moves} replicas of a node")

    def _kill_a_broker(self) -> None:
        victim = self._brokers()[-2]
        with self._away(victim), self._phase("a broker is killed: its leaders are elsewhere, on all nodes"):
            victim.kill()
            self._wait(lambda: not any(self._leads(image, victim.node_id) for image in self._images()), every_us=10_000)

    def _kill_the_controller(self) -> None:
        active = next(
            node
            for node in self._cluster.nodes.values()
            if node.broker is not None and node.broker.quorum is not None and node.broker.quorum.leading_epoch
        )
        with self._away(active), self._phase("the controller is killed: a new topic is known to all nodes"):
            active.kill()
            _, name = self._new_topic()
            self._wait(lambda: all(self._knows(name)))

    # -- helpers ---------------------------------------------------------------------------------------------------

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        kernel = self._kernel
        began_us, events, requests, began = kernel.now_us, kernel.events_run, self._requests, time.perf_counter()
        yield
        self.phases.append(
            Phase(
                name=name,
                virtual_seconds=(kernel.now_us - began_us) / SECOND_US,
                events=kernel.events_run - events,
                requests=self._requests - requests,
                real_seconds=time.perf_counter() - began,
            )
        )

    def _rename(self, name: str) -> None:
        last = self.phases.pop()
        self.phases.append(
            Phase(
                name=name,
                virtual_seconds=last.virtual_seconds,
                events=last.events,
                requests=last.requests,
                real_seconds=last.real_seconds,
            )
        )

    @contextmanager
    def _away(self, victim: SimNode) -> Iterator[None]:
        """The node comes back at the end of the block, and the cluster heals."""
        usual, self._cluster.restart_seconds = self._cluster.restart_seconds, AWAY_SECONDS
        yield
        self._cluster.restart_seconds = usual
        self._cluster.restart(victim)
        self._wait(lambda: unhealed_part(self._cluster) is None, every_us=100 * SLICE_US)

    def _advance(self, seconds: float) -> None:
        self._kernel.run_until(self._kernel.now_us + round(seconds * SECOND_US))

    def _wait(self, is_done: Callable[[], bool], *, every_us: int = SLICE_US) -> None:
        end_us = self._kernel.now_us + round(SECONDS_MAX * SECOND_US)
        while not is_done():
            if self._kernel.now_us > end_us:
                raise NotReached(f"{self.phases[-1:]}: {unhealed_part(self._cluster)} {self._cluster.findings[:3]}")
            self._kernel.run_until(self._kernel.now_us + every_us)

    def _create(self, topics: dict[str, int], replicas: int) -> Workload:
        workload = CreateTopics(self._stage, f"admin-{self._topics}", topics, replication_factor=replicas)
        self._topics += 1
        workload.start()
        return workload

    def _new_topic(self) -> tuple[Workload, str]:
        name = f"small-{self._topics}"
        return self._create({name: 1}, min(REPLICAS, len(self._cluster.nodes))), name

    def _images(self) -> list[MetadataImage]:
        return [node.broker.metadata.image for node in self._cluster.nodes.values() if node.broker is not None]

    def _newest_image(self) -> MetadataImage:
        return max(self._images(), key=lambda image: image.offset)

    def _knows(self, topic: str) -> Iterator[bool]:
        return (topic in image.topics.by_name for image in self._images())

    def _leads(self, image: MetadataImage, node_id: int) -> bool:
        return any(row.leader == node_id for topic in image.topics.by_id.values() for row in topic.partitions.values())

    def _brokers(self) -> Sequence[SimNode]:
        """Nodes that are no controllers."""
        return [node for node in self._cluster.nodes.values() if node.node_id > CONTROLLERS]

    def _on_request(self, _node: SimNode, _api_key: int, _client: str, moment: str) -> None:
        self._requests += moment == "arrives"


def measure(nodes: int) -> list[Phase]:
    assert nodes >= CONTROLLERS + 2, f"at least {CONTROLLERS + 2} nodes: controllers, and two that can be lost"
    return ScaleRun(nodes).run()


def main(arguments: Sequence[str]) -> None:
    # Nodes warn of every killed neighbour.
    logging.getLogger("ottla").setLevel(logging.ERROR)
    for nodes in map(int, arguments or ["5", "50", "200"]):
        print(f"{nodes} nodes")
        print(f"{'virtual ms':>12}{'events':>12}{'requests':>12}{'per node':>10}{'real s':>9}")
        for phase in measure(nodes):
            print(
                f"{phase.virtual_seconds * 1000:>12.2f}{phase.events:>12,}{phase.requests:>12,}"
                f"{phase.requests / nodes:>10.1f}{phase.real_seconds:>9.1f}  {phase.name}",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
