"""Three machines with `ottla host`, two nodes on each: they are balanced under load, then one is lost as a whole."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.host.free_ports import free_ports
from tests.support.fault_workload import NativeWriter, check, wait_until

pytestmark = pytest.mark.faults

PARTITIONS = 8
REPLICAS = 2
# Brokers that tell clients the same host name are one machine: addresses of the loopback interface are three machines.
# Nothing else uses these, so that the ports of the second nodes are free.
MACHINES = {1: "127.0.0.2", 11: "127.0.0.3", 21: "127.0.0.4"}
RESTORE_SECONDS = 120.0


def machine_of(broker_id: int) -> str:
    return MACHINES[broker_id // 10 * 10 + 1]


class Host:
    """One machine; its first node is the controller if its id is 1."""

    def __init__(self, directory: Path, node_id: int, controller: int) -> None:
        address = MACHINES[node_id]
        self.file = directory / f"host-{node_id}.properties"
        (first,) = free_ports(1)
        listeners = f"PLAINTEXT://{address}:{first}"
        settings = {
            "process.roles": "broker",
            "node.id": str(node_id),
            "listeners": listeners,
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": f"1@{MACHINES[1]}:{controller}",
            "log.dirs": str(directory / f"data-{node_id}"),
            "ottla.metrics.listener": f"{address}:0",
            "ottla.host.nodes": "2",
            "broker.rack": f"rack-{node_id}",
            "min.insync.replicas": "1",
            "offsets.topic.replication.factor": "1",
            "broker.session.timeout.ms": "3000",
            "broker.heartbeat.interval.ms": "300",
        }
        if node_id == 1:
            settings["process.roles"] = "broker,controller"
            settings["listeners"] += f",CONTROLLER://{address}:{controller}"
        self.file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ottla.cli.main", "host", "--config", str(self.file)],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.bootstrap = ""

    def wait_ready(self) -> None:
        assert self.process.stdout is not None
        words = self.process.stdout.readline().split()
        assert words[:1] == ["ready"], words
        self.bootstrap = words[1]

    @property
    def pids(self) -> list[int]:
        command = [sys.executable, "-m", "ottla.cli.main", "host", "status", "--config", str(self.file), "--json"]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
        return [row["pid"] for row in json.loads(answer.stdout)]

    def kill(self) -> None:
        """The machine loses its power: all its processes end at once."""
        pids = self.pids
        self.process.kill()
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait(120)
        if self.process.stdout is not None:
            self.process.stdout.close()


class MachineWatch:
    """Looks at the replicas again and again: every partition is on two machines at least.

    While a replica moves, its partition has the old and the new one, which may be on the same machine.
    """

    def __init__(self, bootstrap: str) -> None:
        self.shared: list[str] = []
        self.looks = 0
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(0.05):
            for number, replicas in replicas_of(self._admin).items():
                if len({machine_of(broker) for broker in replicas}) < REPLICAS:
                    self.shared.append(f"{number}: {replicas}")
            self.looks += 1


def replicas_of(admin: AdminClient) -> dict[int, list[int]]:
    return {
        number: partition.replicas
        for number, partition in admin.list_topics("t", timeout=60).topics["t"].partitions.items()
    }


def balance(bootstrap: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ottla.cli.main", "balance", *words, "-b", bootstrap]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[list[Host]]:
    (controller,) = free_ports(1)
    running = [Host(tmp_path, node_id, controller) for node_id in MACHINES]
    try:
        for host in running:
            host.wait_ready()
        yield running
    finally:
        # The controller is on the first machine: it goes last.
        for host in reversed(running):
            host.close()


def test_machines_are_balanced_and_one_is_lost(hosts: list[Host], tmp_path: Path) -> None:
    bootstrap = ",".join(host.bootstrap for host in hosts)
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    # All replicas are on two of the six nodes.
    skewed = [[1, 11] if number % 2 else [11, 1] for number in range(PARTITIONS)]
    admin.create_topics([NewTopic("t", PARTITIONS, replica_assignment=skewed)])["t"].result(60)
    options = ("--no-guard", "--journal", str(tmp_path / "journal.json"))
    with NativeWriter(bootstrap, "t", PARTITIONS) as writer:
        writer.wait_for(500)
        watch = MachineWatch(bootstrap)
        done = balance(bootstrap, "run", "--yes", *options)
        assert done.returncode == 0, done.stdout + done.stderr
        writer.wait_for(100)
        watch.stop()
        assert watch.looks > 1
        assert watch.shared == []
        holders = [broker for replicas in replicas_of(admin).values() for broker in replicas]
        assert len(set(holders)) == 2 * len(MACHINES)

        # A machine is lost: there are two others for two replicas.
        hosts[2].kill()
        watch_words = ("watch", "-n", "1", "--repair", "dead", "--dead-after", "0s", "--probe", "0", *options)
        texts = []

        def is_restored() -> bool:
            looked = balance(bootstrap, *watch_words)
            texts.append(looked.stdout + looked.stderr)
            return all(
                len(replicas) == REPLICAS and {machine_of(broker) for broker in replicas} == {MACHINES[1], MACHINES[11]}
                for replicas in replicas_of(admin).values()
            )

        wait_until(is_restored, "all replicas are on the machines that are left", RESTORE_SECONDS)
        assert any("broker 21 is gone" in text for text in texts)
        writer.wait_for(100)

        # With one machine left both replicas would be on it; with one node left it is told what cannot be restored.
        lost = ("--dead", "11", "--dead", "12")
        planned = balance(bootstrap, "plan", *lost)
        assert planned.returncode == 0, planned.stdout + planned.stderr
        assert f"{PARTITIONS} partitions have replicas on the same machine" in planned.stdout
        planned = balance(bootstrap, "plan", *lost, "--dead", "2")
        assert planned.returncode == 1
        assert f"{PARTITIONS} partitions cannot have {REPLICAS} replicas" in planned.stdout
    check(bootstrap, "t", writer)
