"""A cluster of five nodes: a broker is emptied and filled again under load, and a slow one is noticed."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla.testing
from tests.support.balance_under_load import PacedProducer, create_filled_topic, drain_and_refill, replicas_on
from tests.support.fault_workload import FAULT_SETTINGS, NativeWriter, check, leader_of
from tests.support.incidents import run_words

pytestmark = pytest.mark.faults

NODES = 5
PARTITIONS = 15
PARTITION_BYTES = 2_000_000
THROTTLE = 5_000_000
# How long a slow broker stands still, and works in between.
STOP_SECONDS, RUN_SECONDS = 0.3, 0.1


@pytest.fixture(scope="module")
def nodes() -> Iterator[ottla.testing.Cluster]:
    with ottla.testing.cluster(nodes=NODES, settings=FAULT_SETTINGS) as cluster:
        yield cluster


def test_a_broker_is_emptied_and_filled_again_under_load(nodes: ottla.testing.Cluster, tmp_path: Path) -> None:
    create_filled_topic(nodes.bootstrap, "big", PARTITIONS, PARTITION_BYTES)
    create_filled_topic(nodes.bootstrap, "exact", PARTITIONS, 0)
    held = replicas_on(nodes.bootstrap, NODES)
    assert held > 0
    with (
        NativeWriter(nodes.bootstrap, "exact", PARTITIONS) as writer,
        PacedProducer(nodes.bootstrap, "big", PARTITIONS) as paced,
    ):
        writer.wait_for(100)
        figures = drain_and_refill(nodes, paced, tmp_path, broker_id=NODES, throttle=THROTTLE, seconds=5)
        writer.wait_for(100)
    # The ratio is asserted nowhere, since machines that run tests are busy: `python -m bench.balance` measures it.
    print(figures)
    assert paced.failures == []
    assert replicas_on(nodes.bootstrap, NODES) >= held // 2
    check(nodes.bootstrap, "exact", writer)


class Slowness:
    """A node that works for a moment and stands still for a longer one, again and again."""

    def __init__(self, node: ottla.testing.Node) -> None:
        self._pid = node.pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        while not self._over.is_set():
            os.kill(self._pid, signal.SIGSTOP)
            self._over.wait(STOP_SECONDS)
            os.kill(self._pid, signal.SIGCONT)
            self._over.wait(RUN_SECONDS)

    def __enter__(self) -> Slowness:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def test_a_slow_broker_is_noticed_and_leads_nothing_any_more(nodes: ottla.testing.Cluster, tmp_path: Path) -> None:
    """The broker keeps its session and stays in sync; only the latency of producers shows that it is slow."""
    create_filled_topic(nodes.bootstrap, "led", PARTITIONS, 0)
    words = ["balance", "watch", "-n", "1", "--probe", "4", "--journal", str(tmp_path / "journal.json")]
    words += ["--no-guard", "-b", nodes.bootstrap]

    def anomalies() -> list[str]:
        code, printed = run_words(*words)
        assert code == 0
        return [line.partition(" ")[2] for line in printed.splitlines()]

    with Slowness(nodes.node(3)):
        # A machine that is busy with something else makes other brokers look slow, too.
        for _ in range(5):
            lines = anomalies()
            if any(line.startswith("slow: broker 3 is slow") for line in lines):
                break
        else:
            raise AssertionError(f"broker 3 was never slow: {lines}")
        assert not [line for line in lines if line.startswith("dead")]
        assert any(leader_of(nodes.bootstrap, "led", number) == 3 for number in range(PARTITIONS))
        code, _ = run_words(*words[:2], "-n", "6", "-i", "1s", *words[4:], "--repair", "slow")
        assert code == 0
        assert all(leader_of(nodes.bootstrap, "led", number) != 3 for number in range(PARTITIONS))
    for _ in range(5):
        lines = anomalies()
        if not [line for line in lines if line.startswith("slow: broker 3")]:
            return
    raise AssertionError(f"broker 3 is still slow: {lines}")
