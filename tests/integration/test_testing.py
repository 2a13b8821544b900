"""`ottla.testing` itself: what a project that tests against it relies on."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Producer

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


def test_everything_is_gone_at_the_end() -> None:
    with ottla.testing.cluster() as cluster:
        data, pid = cluster.data, cluster.node(1).pid
        assert data.is_dir()
        os.kill(pid, 0)
    assert not data.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_data_is_in_memory_where_there_is_such_a_place() -> None:
    with ottla.testing.cluster() as cluster:
        assert cluster.data.is_relative_to("/dev/shm") == Path("/dev/shm").is_dir()


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
    with ottla.testing.cluster() as one, ottla.testing.cluster() as other:
        assert one.bootstrap != other.bootstrap
        produce_one(one.bootstrap, "only-here")
        assert not (other.node(1).directory / "data" / "only-here-0").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere ports cannot be held")
def test_the_port_of_a_node_that_is_down_is_given_to_nobody_else() -> None:
    with ottla.testing.cluster() as cluster:
        host, _, port = cluster.bootstrap.partition(":")
        cluster.node(1).stop()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((host, int(port)))
        cluster.node(1).start()
        produce_one(cluster.bootstrap)


def test_a_node_that_cannot_start_says_why() -> None:
    with (
        pytest.raises(ottla.testing.ClusterFailed, match=r"num\.partitions"),
        ottla.testing.cluster(settings={"num.partitions": "none"}),
    ):
        pytest.fail("it started")


def test_the_plugin_costs_nothing_until_it_is_used() -> None:
    program = (
        "import sys, ottla.testing.plugin;"
        "print(sorted(m for m in sys.modules if m.startswith('ottla.') and not m.startswith('ottla.testing')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
    assert "ottla.testing.clusters" not in done.stdout


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
