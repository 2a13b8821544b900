"""`python -m bench.host 1 2 4`: what a machine gets from one more node of `ottla host`.

For each number of nodes: `ottla host` starts them, a topic gets six partitions for each, and every node has a client
process of its own with prepared frames (batches of 16 KiB, acks=1, five requests in flight). Nodes share no memory and
no lock, so a request should cost the same whatever their number; what the machine has in total is bounded by its
processors, which the clients use as well. Idle nodes, the supervisor and the memory of each are measured before that.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench.measure import cpu_ns, resident_bytes, touch_memory
from bench.micro import Client, batch_of, produce_frame
from ottla.host.free_ports import free_ports
from tests.support.port_ranges import ports_in_a_row

__all__ = ["main"]

TOPIC = "host"
PARTITIONS_PER_NODE = 6
IN_FLIGHT = 5
# All nodes together get this many requests; half as many again before that, as warm-up.
REQUESTS = 48_000
RECORDS_PER_BATCH = 16
VALUE_BYTES = 1_000
IDLE_S = 5.0
PROCESS_TIMEOUT_S = 120.0


@contextmanager
def running_host(directory: Path, nodes: int) -> Iterator[tuple[str, int, list[int]]]:
    """The bootstrap servers, the process of the supervisor, and those of its nodes."""
    (controller,) = free_ports(1)
    port, reserved_ports = ports_in_a_row(nodes)
    file = directory / "host.properties"
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "log.dirs": str(directory / "data"),
        "ottla.metrics.listener": "127.0.0.1:0",
        "ottla.host.nodes": str(nodes),
    }
    file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    command = [sys.executable, "-m", "ottla.cli.main", "host", "--config", str(file)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert process.stdout is not None
        _, bootstrap, *_ = process.stdout.readline().split()
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(children) == nodes, children
        yield bootstrap, process.pid, [int(pid) for pid in children]
    finally:
        process.terminate()
        process.wait(PROCESS_TIMEOUT_S)
        for reserved in reserved_ports:
            reserved.close()


def measure(nodes: int) -> dict[str, float]:
    with (
        tempfile.TemporaryDirectory(prefix="ottla-host-") as scratch,
        running_host(Path(scratch), nodes) as (bootstrap, supervisor, pids),
    ):
        figures: dict[str, float] = {"nodes": nodes}
        idle_ns = _cpu_ns(pids)
        supervisor_ns = cpu_ns(supervisor)
        time.sleep(IDLE_S)
        figures["idle, % of a core for each node"] = (_cpu_ns(pids) - idle_ns) / nodes / IDLE_S / 1e7
        figures["idle supervisor, % of a core"] = (cpu_ns(supervisor) - supervisor_ns) / IDLE_S / 1e7
        figures["MB for each node"] = sum(map(resident_bytes, pids)) / nodes / 1e6
        figures["MB of the supervisor"] = resident_bytes(supervisor) / 1e6
        touch_memory(Path(scratch), 2 * REQUESTS * RECORDS_PER_BATCH * VALUE_BYTES)
        led = _leaders(bootstrap, nodes)
        _drive(led, REQUESTS // 2 // nodes)
        spent_ns, began = _cpu_ns(pids), time.monotonic()
        _drive(led, REQUESTS // nodes)
        elapsed_s = time.monotonic() - began
        requests = REQUESTS // nodes * nodes
        figures["CPU of a request, µs"] = (_cpu_ns(pids) - spent_ns) / requests / 1e3
        figures["requests/s"] = requests / elapsed_s
        figures["MB/s"] = requests * RECORDS_PER_BATCH * VALUE_BYTES / elapsed_s / 1e6
        return figures


def _cpu_ns(pids: list[int]) -> int:
    return sum(map(cpu_ns, pids))


def _leaders(bootstrap: str, nodes: int) -> dict[int, list[int]]:
    """By port of a node: the partitions that it leads."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    topic = NewTopic(TOPIC, nodes * PARTITIONS_PER_NODE, 1)
    admin.create_topics([topic])[TOPIC].result(PROCESS_TIMEOUT_S)
    described = admin.list_topics(TOPIC, timeout=60)
    led: dict[int, list[int]] = {broker.port: [] for broker in described.brokers.values()}
    for partition in described.topics[TOPIC].partitions.values():
        led[described.brokers[partition.leader].port].append(partition.id)
    return led


def _drive(led: dict[int, list[int]], requests: int) -> None:
    """One client process for each node, all at once; a client starts when it has connected and built its frames."""
    clients = [
        subprocess.Popen(
            [sys.executable, "-m", "bench.host", "--client", str(port), str(requests), *map(str, partitions)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for port, partitions in led.items()
    ]
    for client in clients:
        assert client.stdout is not None
        client.stdout.readline()
    for client in clients:
        assert client.stdin is not None
        client.stdin.close()
    for client in clients:
        assert client.wait(PROCESS_TIMEOUT_S) == 0, "a client failed"


def run_client(port: int, requests: int, partitions: list[int]) -> None:
    batch = batch_of(RECORDS_PER_BATCH, VALUE_BYTES)
    frames = [produce_frame(TOPIC, batch, acks=1, partitions=range(index, index + 1)) for index in partitions]
    client = Client(port)
    print("ready", flush=True)
    sys.stdin.read()
    client.drive([frames[number % len(frames)] for number in range(requests)], in_flight=IN_FLIGHT)
    client.close()


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--client"]:
        port, requests, *partitions = map(int, arguments[1:])
        run_client(port, requests, partitions)
        return
    for nodes in map(int, arguments or ["1", "2", "4"]):
        print("  ".join(f"{name} {value:.2f}" for name, value in measure(nodes).items()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
