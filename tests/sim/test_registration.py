"""Brokers with complete logs: the marker that a node without a registration leaves for its next start (KIP-966)."""

from __future__ import annotations

import json

from ottla.sim.cluster import ClusterLayout, SimCluster
from ottla.sim.files import SimFiles
from ottla.sim.kernel import SECOND_US, Kernel

CLEAN_SHUTDOWN_MARKER = "/data/.kafka_cleanshutdown"


class Pair:
    """A controller that is a broker, and a broker that stops without notice: its session lasts 9 seconds."""

    def __init__(self) -> None:
        self.kernel = Kernel(5)
        settings = {"broker.session.timeout.ms": "9000", "controlled.shutdown.enable": "false"}
        self.cluster = SimCluster(self.kernel, ClusterLayout(nodes=2, controllers=1, settings=settings))
        # The second node gives up early if it is not accepted: its own setting for sessions is short.
        self.second = self.cluster.nodes[2]
        self.second.properties["broker.session.timeout.ms"] = "2000"
        self.second.properties["broker.heartbeat.interval.ms"] = "500"
        # Only the test restarts nodes.
        self.cluster.restart_seconds = (1e6, 1e6)
        self.cluster.start()
        self.run(5)
        assert self.cluster.all_serve

    def run(self, seconds: float) -> None:
        self.kernel.run_until(self.kernel.now_us + round(seconds * SECOND_US))

    def registered_epoch(self) -> int:
        broker = self.cluster.nodes[1].broker
        assert broker is not None
        return broker.metadata.image.brokers[2].broker_epoch

    def left_epoch(self) -> int | None:
        files = SimFiles(self.kernel, self.second.disk)
        if not files.exists(CLEAN_SHUTDOWN_MARKER):
            return None
        return int(json.loads(files.read_bytes(CLEAN_SHUTDOWN_MARKER))["brokerEpoch"])

    def change_left_epoch(self, epoch: int) -> None:
        files = SimFiles(self.kernel, self.second.disk)
        marker = json.loads(files.read_bytes(CLEAN_SHUTDOWN_MARKER))
        files.write_atomically(CLEAN_SHUTDOWN_MARKER, json.dumps(marker | {"brokerEpoch": epoch}).encode())


def test_a_node_that_is_stopped_before_it_is_registered_is_as_whole_as_before() -> None:
    pair = Pair()
    pair.second.stop()
    pair.run(1)
    assert pair.left_epoch() == pair.registered_epoch()
    pair.second.start()
    pair.run(1)
    assert pair.left_epoch() is None
    pair.second.stop()
    pair.run(1)
    assert not pair.second.is_running
    assert pair.left_epoch() == pair.registered_epoch()


def test_a_node_that_gives_up_is_as_whole_as_before() -> None:
    """An older epoch does not prove that the registered process has ended, so the new process is refused."""
    pair = Pair()
    pair.second.stop()
    pair.run(0.5)
    older_epoch = pair.registered_epoch() - 1
    pair.change_left_epoch(older_epoch)
    pair.second.start()
    pair.run(5)
    assert not pair.second.is_running
    assert pair.left_epoch() == older_epoch
    assert pair.cluster.findings == []


def test_a_node_that_crashed_stays_suspect_until_it_was_registered() -> None:
    pair = Pair()
    pair.second.kill()
    pair.run(0.1)
    pair.second.start()
    pair.run(1)
    pair.second.stop()
    pair.run(1)
    assert not pair.second.is_running
    assert pair.left_epoch() == -1
