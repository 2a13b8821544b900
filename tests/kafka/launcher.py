"""A fresh cluster for every test: the program behind `-Doutside.launcher`.

    start DIR N PROPERTIES   brokers 0..N-1 with that file (and PROPERTIES.ID where one broker has its own), all under
                             DIR; waits until they serve and prints the bootstrap list
    stop DIR                 ends them and removes DIR
    stop-broker DIR ID       ends one in good order
    start-broker DIR ID      starts it again; both wait

Broker 0 is also the controller. Only the command line that runs a broker, and whether its storage must be formatted
first, differ between Ottla and Apache Kafka; `ottla-launcher` and `kafka-launcher` are the two doors.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from tests.support import jars
from tests.support.brokers import CLUSTER_ID, free_ports
from tests.support.java import java_command

__all__ = ["main"]

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
KINDS = ("ottla", "kafka")

# Size, API key, version, correlation id, no client id.
API_VERSIONS_REQUEST = struct.pack(">ihhih", 10, 18, 0, 1, -1)


def main(kind: str, arguments: list[str]) -> None:
    assert kind in KINDS, kind
    verb, directory = arguments[0], Path(arguments[1])
    if verb == "start":
        print(start(kind, directory, broker_count=int(arguments[2]), properties=Path(arguments[3])))
    elif verb == "stop":
        stop(directory)
    elif verb == "stop-broker":
        end(directory, int(arguments[2]), signal.SIGTERM)
    elif verb == "start-broker":
        spawn(kind, directory, int(arguments[2]))
        wait_until_served(directory, int(arguments[2]))
    else:
        sys.exit(f"unknown verb {verb}")


def start(kind: str, directory: Path, *, broker_count: int, properties: Path) -> str:
    *ports, controller_port = free_ports(broker_count + 1)
    for broker, port in enumerate(ports):
        text = broker_properties(kind, directory, broker, port, controller_port, broker_count, properties)
        (directory / f"{broker}.properties").write_text(text)
        (directory / f"{broker}.port").write_text(str(port))
        if kind == "kafka":
            format_storage(directory, broker)
    for broker in range(broker_count):
        spawn(kind, directory, broker)
    for broker in range(broker_count):
        wait_until_served(directory, broker)
    return ",".join(f"127.0.0.1:{port}" for port in ports)


def stop(directory: Path) -> None:
    for file in directory.glob("*.pid"):
        end(directory, int(file.stem), signal.SIGKILL)
    shutil.rmtree(directory, ignore_errors=True)


def broker_properties(
    kind: str, directory: Path, broker: int, port: int, controller_port: int, broker_count: int, properties: Path
) -> str:
    """The test's own settings, before them defaults that make a small cluster quick, after them what must be so."""
    factor = min(broker_count, 3)
    defaults: dict[str, object] = {
        "offsets.topic.replication.factor": factor,
        "offsets.topic.num.partitions": 5,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.num.partitions": 5,
        "transaction.state.log.min.isr": 1,
        "share.coordinator.state.topic.replication.factor": factor,
        "share.coordinator.state.topic.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
        "log.cleaner.dedupe.buffer.size": 2097154,
    }
    if kind == "kafka":
        # As Kafka's own test framework does.
        defaults["unstable.api.versions.enable"] = "true"
    listeners = f"PLAINTEXT://127.0.0.1:{port}"
    if broker == 0:
        listeners += f",CONTROLLER://127.0.0.1:{controller_port}"
    fixed = {
        "process.roles": "broker,controller" if broker == 0 else "broker",
        "node.id": broker,
        "controller.quorum.voters": f"0@127.0.0.1:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listeners": listeners,
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": directory / f"data{broker}",
    }
    # 3000 is the number that Kafka's test framework gives the controller, and settings meant for it.
    own = [properties, Path(f"{properties}.{broker}"), Path(f"{properties}.3000")]
    parts = [as_lines(defaults), *(file.read_text() for file in own if file.exists()), as_lines(fixed)]
    lines = "\n".join(parts).splitlines(keepends=True)
    # Ottla refuses to enable what it has not got, and of things under development it has none.
    return "".join(line for line in lines if kind == "kafka" or not line.startswith("unstable."))


def as_lines(settings: Mapping[str, object]) -> str:
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def spawn(kind: str, directory: Path, broker: int) -> None:
    properties = str(directory / f"{broker}.properties")
    if kind == "ottla":
        command = [str(Path(sys.executable).parent / "ottla"), "node", "--config", properties]
    else:
        command = [*java("-Xmx400m", "-Xshare:auto"), "kafka.Kafka", properties]
    with (directory / f"{broker}.log").open("ab") as output:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    (directory / f"{broker}.pid").write_text(str(process.pid))


def java(*options: str) -> list[str]:
    quick = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    return [java_command(), *options, *quick, "-cp", jars.class_path(jars.TOOLS)]


def format_storage(directory: Path, broker: int) -> None:
    """Formatting costs a JVM, so a formatted directory is kept in the cache and copied."""
    kept = jars.cache_directory() / "formatted" / f"{jars.fetch(jars.TOOLS).name}-{broker}"
    place = directory / f"data{broker}"
    if not kept.is_dir():
        command = [*java("-Xmx128m"), "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID]
        command += ["-c", str(directory / f"{broker}.properties")]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        shutil.copytree(place, kept)
    shutil.copytree(kept, place, dirs_exist_ok=True)


def wait_until_served(directory: Path, broker: int) -> None:
    port = int((directory / f"{broker}.port").read_text())
    pid = int((directory / f"{broker}.pid").read_text())
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as client:
            # A broker may let connections wait before it is ready; one that answers is a member of the cluster.
            client.settimeout(max(deadline - time.monotonic(), 0.001))
            client.sendall(API_VERSIONS_REQUEST)
            if client.recv(4):
                return
        if not is_alive(pid):
            break
        time.sleep(0.005)
    sys.exit(f"broker {broker} did not start: {(directory / f'{broker}.log').read_text()[-2000:]}")


def end(directory: Path, broker: int, first_signal: signal.Signals) -> None:
    pid = int((directory / f"{broker}.pid").read_text())
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, first_signal)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while is_alive(pid):
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.005)


def is_alive(pid: int) -> bool:
    """A broker whose starter has gone is nobody's child here; a zombie of our own counts as ended."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rsplit(")", 1)[1].split()[0] != "Z"
