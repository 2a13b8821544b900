"""One JVM with Kafka Streams that answers cases, a line of JSON each."""

from __future__ import annotations

import json
import subprocess
import tempfile
from typing import Any, Self

from tests.support import jars
from tests.support.java import compiled, java_command, unavailable_reason

__all__ = ["JARS", "StreamsOracle", "reason"]

JARS = jars.STREAMS


def reason() -> str | None:
    """Why the oracle cannot run here, or None."""
    return unavailable_reason(JARS)


class StreamsOracle:
    """A context manager; `ask` sends one case and returns the answer of Kafka Streams."""

    def __init__(self) -> None:
        classes = compiled([JARS / "StreamsOracle.java"], jar_set=JARS)
        # Stores on disk are the default of Kafka Streams; their results are the reference.
        self._directory = tempfile.TemporaryDirectory()
        command = [
            java_command(),
            f"-Djava.io.tmpdir={self._directory.name}",
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "-XX:TieredStopAtLevel=1",
            "-Xshare:auto",
        ]
        command += ["-cp", f"{classes}:{jars.class_path(JARS)}", "StreamsOracle"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, case: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(case) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, f"the JVM ended with {self._process.wait()}"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()
        self._directory.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
