"""Contestants of `pipelines` and `mirror`: processes with their descendants, awaited, frozen and measured."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import psutil

from bench.runner import CaseFailedError
from tests.support import jars
from tests.support.java import java_command

__all__ = ["WAIT_S", "Contestant", "kafka_connect", "mirror_maker", "ottla_connect", "ottla_mirror", "query"]

JARS = Path(__file__).resolve().parent / "connect"
# The options that the script of Kafka's distribution passes to the JVM of a Connect worker.
CONNECT_JVM_OPTIONS = ["-Xms256M", "-Xmx2G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"]
CONNECT_JVM_OPTIONS += ["-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"]
STRING = "org.apache.kafka.connect.storage.StringConverter"
WAIT_S = 120.0


class Contestant:
    """A process with its descendants; a context manager."""

    def __init__(self, command: Sequence[str], directory: Path, environment: Mapping[str, str] | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.output = directory / "output.txt"
        self._command = list(command)
        self._environment = {**os.environ, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Contestant:
        with self.output.open("wb") as output:
            self._process = subprocess.Popen(
                self._command, env=self._environment, stdout=output, stderr=subprocess.STDOUT, process_group=0
            )
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        family = self.processes()
        self._process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(20)
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self._process.wait()

    def processes(self) -> list[psutil.Process]:
        assert self._process is not None
        with contextlib.suppress(psutil.NoSuchProcess):
            top = psutil.Process(self._process.pid)
            return [top, *top.children(recursive=True)]
        return []

    def cpu_seconds(self) -> float:
        """CPU time of all its processes, ended ones included."""
        total = 0.0
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                total += sum(process.cpu_times()[:4])
        return total

    def memory_bytes(self) -> int:
        """The memory of the processes; shared memory is counted once."""
        total = 0
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                total += process.memory_full_info().pss
        return total

    def wait_for(self, condition: Callable[[], bool], *, pause_s: float = 0.02, limit_s: float = WAIT_S) -> None:
        end = time.monotonic() + limit_s
        while not condition():
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > end:
                raise CaseFailedError(self.complaints() or "it took too long, without a word")
            time.sleep(pause_s)

    def complaints(self) -> str:
        return self.output.read_text(errors="replace")[-1500:]

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        family = self.processes()
        for process in family:
            process.suspend()
        yield
        for process in family:
            process.resume()


def kafka_connect(bootstrap: str, directory: Path, connectors: Sequence[Mapping[str, str]], **more: str) -> Contestant:
    files = _written(directory, worker_settings(bootstrap, directory, more), connectors)
    return Contestant([*_java(directory), "org.apache.kafka.connect.cli.ConnectStandalone", *files], directory)


def mirror_maker(directory: Path, properties: Mapping[str, str]) -> Contestant:
    """MirrorMaker 2 as its script starts it: in one process, without a Connect cluster."""
    files = _written(directory, properties, [])
    return Contestant([*_java(directory), "org.apache.kafka.connect.mirror.MirrorMaker", *files], directory)


def ottla_mirror(directory: Path, properties: Mapping[str, str], package: Path) -> Contestant:
    command = [sys.executable, "-m", "ottla.cli.main", "mirror", *_written(directory, properties, [])]
    return Contestant(command, directory, {"PYTHONPATH": str(package.parent)})


def _java(directory: Path) -> list[str]:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "log4j2.properties").write_text(
        "rootLogger.level=WARN\nrootLogger.appenderRef.a.ref=OUT\nappender.out.type=Console\nappender.out.name=OUT\n"
        "appender.out.layout.type=PatternLayout\nappender.out.layout.pattern=%p %c: %m%n\n"
    )
    logging = f"-Dlog4j2.configurationFile={directory}/log4j2.properties"
    return [java_command(), *CONNECT_JVM_OPTIONS, logging, "-cp", jars.class_path(JARS)]


def ottla_connect(
    bootstrap: str, directory: Path, connectors: Sequence[Mapping[str, str]], package: Path, **more: str
) -> Contestant:
    files = _written(directory, worker_settings(bootstrap, directory, more), connectors)
    command = [sys.executable, "-m", "ottla.cli.main", "connect", "standalone", *files]
    return Contestant(command, directory, {"PYTHONPATH": str(package.parent)})


def worker_settings(bootstrap: str, directory: Path, more: Mapping[str, str]) -> dict[str, str]:
    return {
        "bootstrap.servers": bootstrap,
        "key.converter": STRING,
        "value.converter": STRING,
        "offset.storage.file.filename": str(directory / "offsets"),
        "listeners": "http://127.0.0.1:0",
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def _written(directory: Path, worker: Mapping[str, str], connectors: Sequence[Mapping[str, str]]) -> list[str]:
    directory.mkdir(parents=True, exist_ok=True)
    files = []
    for number, settings in enumerate([worker, *connectors]):
        path = directory / f"{number}.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        files.append(str(path))
    return files


def query(
    package: Path,
    place: Path,
    bootstrap: str,
    *,
    source: str,
    target: str,
    kind: str = "ottla",
    mode: str = "throughput",
) -> Contestant:
    settings = {"bootstrap": bootstrap, "source": source, "target": target, "kind": kind, "mode": mode}
    settings["checkpoint"] = str(place / "checkpoint")
    command = [sys.executable, "-m", "bench.spark_copy", json.dumps(settings)]
    return Contestant(command, place, {"PYTHONPATH": f"{package.parent}{os.pathsep}{os.getcwd()}"})
