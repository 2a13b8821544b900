"""`ottla.testing` itself: the guarantees for projects that test with it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

import ottla.testing


def produce_one(bootstrap: str, topic: str = "topic") -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    failures: list[object] = []
    producer.produce(topic, b"value", on_delivery=lambda error, _: failures.append(error))
    assert producer.flush(60) == 0
    assert failures == [None]


def test_the_fixture_gives_a_cluster_that_takes_records(ottla_cluster: ottla.testing.Cluster) -> None:
    produce_one(ottla_cluster.bootstrap)
    assert (ottla_cluster.node(1).directory / "data" / "topic-0").is_dir()


class BrokenTest(Exception):
    """An exception that a test raises while the cluster runs."""


def children() -> set[str]:
    """The child processes of this process, zombies included."""
    return {pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()}


@pytest.mark.parametrize(("nodes", "broken"), [(1, False), (3, False), (3, True)])
def test_everything_is_gone_at_the_end(nodes: int, broken: bool) -> None:
    before = children()
    outcome: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
    if broken:
        outcome = pytest.raises(BrokenTest)
    with outcome, ottla.testing.cluster(nodes=nodes) as cluster:
        produce_one(cluster.bootstrap)
        assert cluster.data.is_dir()
        pids = {str(node.pid) for node in cluster.nodes}
        assert len(pids) == nodes
        assert pids <= children()
        if broken:
            cluster.node(2).kill()
            raise BrokenTest
    assert not cluster.data.exists()
    assert children() == before
    for node in cluster.nodes:
        host, _, port = node.address.partition(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), timeout=60)


def test_topics_and_groups_survive_the_loss_of_a_node() -> None:
    # Shorter than the default, so that a dead leader is replaced soon.
    with ottla.testing.cluster(nodes=3, settings={"broker.session.timeout.ms": "3000"}) as cluster:
        topics = [f"topic-{number}" for number in range(6)]
        for topic in topics:
            produce_one(cluster.bootstrap, topic)
        cluster.node(2).kill()
        for topic in [*topics, "created-afterwards"]:
            produce_one(cluster.bootstrap, topic)
        settings = {"bootstrap.servers": cluster.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
        consumer = Consumer(settings)
        try:
            consumer.subscribe([*topics, "created-afterwards"])
            counts: Counter[str | None] = Counter()
            deadline = time.monotonic() + 60
            while counts.total() < 13 and time.monotonic() < deadline:
                message = consumer.poll(1)
                if message is not None and message.error() is None:
                    counts[message.topic()] += 1
            assert counts == Counter(dict.fromkeys(topics, 2) | {"created-afterwards": 1})
        finally:
            consumer.close()


def test_a_clean_stop_is_one() -> None:
    with ottla.testing.cluster() as cluster:
        produce_one(cluster.bootstrap)
        cluster.node(1).stop()
        assert (cluster.node(1).directory / "data" / ".kafka_cleanshutdown").is_file()


def test_data_is_in_memory_where_there_is_such_a_place() -> None:
    with ottla.testing.cluster(nodes=2) as cluster:
        assert cluster.data.is_relative_to("/dev/shm") == os.access("/dev/shm", os.W_OK)
        produce_one(cluster.bootstrap)
        for node in cluster.nodes:
            written = files_written(node.pid)
            assert any(path.suffix == ".log" for path in written)
            assert all(path.is_relative_to(node.directory) for path in written)


def files_written(pid: int) -> list[Path]:
    """The regular files that a process has open for writing."""
    paths = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            flags = re.search(r"^flags:\s*(\d+)", (link.parent.parent / "fdinfo" / link.name).read_text(), re.MULTILINE)
            assert flags is not None
            path = Path(os.readlink(link))
            if int(flags.group(1), 8) & os.O_ACCMODE != os.O_RDONLY and path.is_file():
                paths.append(path)
    return paths


def test_every_node_has_ports_of_its_own() -> None:
    with ottla.testing.cluster(nodes=3) as first, ottla.testing.cluster(nodes=3) as second:
        listeners = [node.properties()["listeners"] for node in [*first.nodes, *second.nodes]]
        ports = [port for listener in listeners for port in re.findall(r":(\d+)", listener)]
        assert len(ports) == len(set(ports)) == 12
        assert {node.address.rpartition(":")[2] for node in [*first.nodes, *second.nodes]} <= set(ports)


def test_a_restart_keeps_port_and_data_and_settings() -> None:
    with ottla.testing.cluster(settings={"num.partitions": "4"}) as cluster:
        bootstrap = cluster.bootstrap
        produce_one(bootstrap)
        cluster.node(1).stop()
        assert not cluster.node(1).running
        cluster.node(1).start()
        assert cluster.bootstrap == bootstrap
        produce_one(bootstrap)
        assert (cluster.node(1).directory / "data" / "topic-3").is_dir()
        cluster.node(1).kill()
        cluster.node(1).start()
        produce_one(bootstrap)


def test_clusters_side_by_side_do_not_meet() -> None:
    with ottla.testing.cluster() as first, ottla.testing.cluster() as second:
        assert first.bootstrap != second.bootstrap
        produce_one(first.bootstrap, "only-here")
        assert not (second.node(1).directory / "data" / "only-here-0").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere ports cannot be held")
def test_the_port_of_a_stopped_node_is_not_given_to_another_node() -> None:
    with ottla.testing.cluster() as cluster:
        host, _, port = cluster.bootstrap.partition(":")
        cluster.node(1).stop()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((host, int(port)))
        cluster.node(1).start()
        produce_one(cluster.bootstrap)


def test_a_node_that_cannot_start_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = children()
    monkeypatch.setattr("ottla.testing.clusters.MEMORY_DIRECTORY", str(tmp_path))
    with (
        pytest.raises(ottla.testing.ClusterFailed, match=r"num\.partitions"),
        ottla.testing.cluster(settings={"num.partitions": "none"}),
    ):
        pytest.fail("it started")
    # The failed start leaves no files and no processes.
    assert list(tmp_path.iterdir()) == []
    assert children() == before


def test_the_plugin_costs_nothing_until_it_is_used() -> None:
    program = (
        "import sys, ottla.testing.plugin;"
        "print(sorted(m for m in sys.modules if m.startswith('ottla.') and not m.startswith('ottla.testing')))"
    )
    completed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert completed.stdout == "[]\n"
    assert "ottla.testing.clusters" not in completed.stdout


def test_nodes_do_not_outlive_a_test_process_that_is_killed() -> None:
    program = (
        "import ottla.testing, os, sys, time\n"
        "with ottla.testing.cluster() as cluster:\n"
        "    print(cluster.node(1).pid, cluster.data, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as killed:
        assert killed.stdout is not None
        pid, data = killed.stdout.readline().split()
        killed.kill()
    deadline = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline, "the node lives on"
        time.sleep(0.01)
    shutil.rmtree(data)
