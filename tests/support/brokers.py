"""Brokers as child processes: Apache Kafka (the peer) and Ottla, started and stopped the same way.

Both have `bootstrap`, `pid` and `log_directory`, so a scenario or a benchmark case works with either. Ports are free
ports; a broker's files are below the directory that the caller passes.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Self

from ottla.host.free_ports import free_ports
from tests.support import jars
from tests.support.java import PROGRAMS, java_command

__all__ = ["ApacheKafka", "Broker", "BrokerFailedError", "OttlaFromFile", "OttlaNode", "QuickKafka", "free_ports"]

START_TIMEOUT_S = 240.0
STOP_TIMEOUT_S = 90.0
CLUSTER_ID = "T3R0bGFUZXN0Q2x1c3Rlcg"

# For processes that live for seconds: an optimising compiler and a concurrent collector double their CPU time.
QUICK_JVM_OPTIONS = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
# The options that the scripts of Kafka's distribution pass to the JVM of a broker.
KAFKA_JVM_OPTIONS = [
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
]
# What Kafka's own server.properties sets, where that differs from the built-in defaults, and one-node factors.
KAFKA_SETTINGS = {
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "num.recovery.threads.per.data.dir": "2",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


class BrokerFailedError(Exception):
    """A broker ended or timed out during its start; the message has the end of its output."""


class Broker:
    """The common part of both kinds: a child process, its output file, stop and kill."""

    name: ClassVar[str]
    # The default replication factor of topics.
    replication_factor: ClassVar[int] = 1
    start_timeout_s = START_TIMEOUT_S

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.settings = dict(settings or {})
        self.bootstrap = ""
        self.log_directory = directory / "log"
        self._output = directory / "output.txt"
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def prepare(self) -> None:
        """Work that is needed once before the first start, for example formatting the storage."""

    def start(self) -> Self:
        raise NotImplementedError

    @property
    def pids(self) -> tuple[int, ...]:
        """The ids of all processes of the broker."""
        return (self.pid,)

    def topic_removed(self) -> None:
        """Called by benchmarks, for brokers that do not remove the files of a deleted topic themselves."""

    @property
    def runs(self) -> bool:
        return self._process is not None

    def stop(self, *, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Sends SIGTERM, waits, and sends SIGKILL after the timeout."""
        if self._process is None:
            return
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def complaints(self) -> str:
        """The last log lines that are warnings or worse."""
        lines = self._output.read_text(errors="replace").splitlines()
        return "\n".join([line for line in lines if re.search(r"\b(WARN|WARNING|ERROR|FATAL|Traceback)\b", line)][-10:])

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _spawn(self, command: list[str]) -> None:
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def _wait_for(self, pattern: str) -> re.Match[str]:
        assert self._process is not None
        deadline = time.monotonic() + self.start_timeout_s
        while time.monotonic() < deadline:
            text = self._output.read_text(errors="replace")
            if match := re.search(pattern, text, re.MULTILINE):
                return match
            if self._process.poll() is not None:
                raise BrokerFailedError(f"{self.name} ended with {self._process.returncode}: {text[-2000:]}")
            time.sleep(0.01)
        self.kill()
        raise BrokerFailedError(f"{self.name} was not ready in {self.start_timeout_s:.0f} s: {text[-2000:]}")


class ApacheKafka(Broker):
    """One combined broker and controller of Apache Kafka, with the JVM options of its distribution."""

    name = "kafka"
    jvm_options: ClassVar[Sequence[str]] = KAFKA_JVM_OPTIONS

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        *,
        heap: str = "1G",
        node_id: int = 1,
        ports: Sequence[int] | None = None,
        features: Sequence[str] = (),
        classes: Path | None = None,
    ) -> None:
        """`features` are levels (`share.version=0`) that a new cluster begins with instead of the release's own.

        `classes` is a directory with plug-ins of the test.
        """
        super().__init__(directory, settings)
        self._classes = classes
        self.heap = heap
        self.node_id = node_id
        self._features = features
        self._ports = list(ports or free_ports(2))

    def prepare(self) -> None:
        properties = self.directory / "server.properties"
        write_properties(properties, self._ports, self.log_directory, self.node_id, self.settings)
        if not (self.log_directory / "meta.properties").exists():
            command = [*self._java("-Xmx128m", "-XX:TieredStopAtLevel=1"), "kafka.tools.StorageTool", "format"]
            command += ["-t", CLUSTER_ID, "-c", str(properties)]
            command += [argument for feature in self._features for argument in ("--feature", feature)]
            completed = subprocess.run(command, capture_output=True, text=True, check=False)
            assert completed.returncode == 0, completed.stdout + completed.stderr

    def start(self) -> Self:
        self.prepare()
        self.begin_start()
        self.wait_until_started()
        return self

    def begin_start(self) -> None:
        self._output.write_text("")
        self._spawn(self.command())

    @property
    def properties_file(self) -> Path:
        return self.directory / "server.properties"

    def command(self) -> list[str]:
        """The command that runs the broker."""
        memory = [f"-Xmx{self.heap}", f"-Xms{self.heap}"]
        return [*self._java(*memory, *self.jvm_options), "kafka.Kafka", str(self.properties_file)]

    @property
    def controller(self) -> str:
        """The address of its controller's listener."""
        return f"127.0.0.1:{self._ports[1]}"

    def wait_until_started(self) -> None:
        self._wait_for(r"Kafka Server started")
        self.bootstrap = f"127.0.0.1:{self._ports[0]}"

    def _java(self, *options: str) -> list[str]:
        logging = f"-Dlog4j2.configurationFile={PROGRAMS / 'log4j2-broker.properties'}"
        class_path = (
            jars.class_path(jars.TOOLS) if self._classes is None else f"{self._classes}:{jars.class_path(jars.TOOLS)}"
        )
        return [java_command(), *options, logging, "-cp", class_path]


class QuickKafka(ApacheKafka):
    """Apache Kafka for tests: it starts with half the CPU time, and is not used for measurements."""

    jvm_options = QUICK_JVM_OPTIONS

    def prepare(self) -> None:
        """Formatting needs a JVM, so a formatted directory is cached and copied."""
        cached = self._kept_directory()
        if cached is None or self.log_directory.exists():
            super().prepare()
        elif cached.is_dir():
            shutil.copytree(cached, self.log_directory)
            super().prepare()
        else:
            super().prepare()
            keep_copy(self.log_directory, cached)

    def _kept_directory(self) -> Path | None:
        """A cache directory whose name depends on the inputs of formatting; None if a name cannot represent them."""
        if self._features or {"log.dirs", "metadata.log.dir"} & self.settings.keys():
            return None
        levels = {
            key: value for key, value in sorted(self.settings.items()) if key.startswith(("process.", "unstable."))
        }
        digest = hashlib.sha256(repr(levels).encode()).hexdigest()[:8]
        name = f"quick-{jars.fetch(jars.TOOLS).name}-{self.node_id}-{digest}"
        return jars.cache_directory() / "formatted" / name


class OttlaFromFile(Broker):
    """One Ottla node from a server.properties file of Kafka's kind, as `ottla node --config` starts it."""

    name = "ottla"

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None, *, node_id: int = 1) -> None:
        super().__init__(directory, settings)
        self.node_id = node_id
        self._ports = free_ports(2)

    @property
    def controller(self) -> str:
        """The address of its controller's listener."""
        return f"127.0.0.1:{self._ports[1]}"

    @property
    def listeners(self) -> str:
        """The listeners if the settings have none."""
        return f"PLAINTEXT://127.0.0.1:{self._ports[0]},CONTROLLER://{self.controller}"

    def start(self) -> Self:
        properties = self.directory / "server.properties"
        write_properties(properties, self._ports, self.log_directory, self.node_id, self.settings)
        self._output.write_text("")
        self._spawn([str(Path(sys.executable).parent / "ottla"), "node", "--config", str(properties)])
        self._wait_for(r"^ready\b")
        self.bootstrap = f"127.0.0.1:{self._ports[0]}"
        return self


class OttlaNode(Broker):
    """One Ottla node, as `ottla up` starts it."""

    name = "ottla"

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(directory, settings)
        self._port = 0

    @property
    def pid(self) -> int:
        with contextlib.suppress(OSError, ValueError):
            return int((self.directory / "data" / "node-1" / "node.pid").read_text())
        return super().pid

    def start(self) -> Self:
        command = [str(Path(sys.executable).parent / "ottla"), "up", "--port", str(self._port)]
        command += ["--data", str(self.directory / "data")]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        self._output.write_text("")
        self._spawn(command)
        ready = self._wait_for(r"^ready\b.*?(127\.0\.0\.1:(\d+)).*$")
        # A restart must use the same port, or clients that know the old port lose the broker.
        self.bootstrap, self._port = ready.group(1), int(ready.group(2))
        properties = (self.directory / "data" / "node-1" / "node.properties").read_text()
        match = re.search(r"^log\.dirs?\s*=\s*(.+)$", properties, re.MULTILINE)
        assert match is not None, properties
        self.log_directory = Path(match.group(1).split(",")[0])
        return self


def keep_copy(directory: Path, target: Path) -> None:
    """Copies atomically: several processes may do this at the same time."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        copy = shutil.copytree(directory, Path(scratch) / "copy")
        with contextlib.suppress(OSError):
            copy.rename(target)


def write_properties(
    file: Path, ports: list[int], log_directory: Path, node_id: int, settings: Mapping[str, str]
) -> None:
    """Writes the server.properties of a combined node; `settings` override all other values."""
    client, controller = (f"127.0.0.1:{port}" for port in ports)
    lines = {
        **KAFKA_SETTINGS,
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "controller.quorum.voters": f"{node_id}@{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{client},CONTROLLER://{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "log.dirs": str(log_directory),
        **settings,
    }
    file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
