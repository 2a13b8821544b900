"""Shared by the tests with attackers: an honest client whose latency is measured, and the table of results."""

from __future__ import annotations

import math
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

import ottla.testing
from ottla.model.errors import ErrorCode
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tests.support.bystander import Bystander
from tests.support.raw_client import RawClient
from tests.support.reference import TURN_MAX, reference_seconds

__all__ = ["PERCENTILES", "RESULTS", "Honest", "Percentiles", "Result", "Siege", "create", "measured_turns"]


class Result(NamedTuple):
    attack: str
    longest_seconds: float
    # The CPU time of the longest turn of the node's loop, which does not depend on other processes.
    turn_seconds: float
    answers: int
    peak_bytes: int


class Percentiles(NamedTuple):
    """The p99 of an honest client: without an attack, with an attack on another node, and on its own node."""

    attack: str
    usual_ms: float
    beside_ms: float | None
    attacked_ms: float
    note: str = ""


# Printed at the end of the run (conftest.py).
RESULTS: list[Result] = []
PERCENTILES: list[Percentiles] = []


def create(bootstrap: str, name: str, partitions: int = 1, **configs: str) -> None:
    values = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=values)
    with RawClient(bootstrap) as client:
        answer = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
    assert answer.topics[0].error_code == ErrorCode.NONE, answer


class Honest:
    """Sends ApiVersions requests without a pause, and measures the longest time between two answers."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.longest_seconds = 0.0
        self.answers = 0

    def __enter__(self) -> Honest:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            with Bystander(self._bootstrap) as bystander:
                last = time.monotonic()
                while not self._ends.is_set():
                    bystander.asks()
                    now = time.monotonic()
                    self.longest_seconds = max(self.longest_seconds, now - last)
                    self.answers += 1
                    last = now
        except OSError:
            # The node did not answer at all.
            self.longest_seconds = math.inf


@contextmanager
def measured_turns() -> Iterator[None]:
    """Makes nodes that are started in the block record the turns of their loops (`turn_probe`), for `Siege`."""
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(Path(__file__).parent / "turn_probe"), prepend=os.pathsep)
        patched.setenv("OTTLA_TURNS", f"{directory}/turns")
        yield


class Siege:
    """An attack on the only node of a cluster, with an honest client beside it.

    At the end the honest client must have been served, and the node must run, without a traceback in its log and with
    bounded memory.
    """

    def __init__(
        self,
        attack: str,
        cluster: ottla.testing.Cluster,
        *,
        memory_bytes_max: int = 1024 * 1024 * 1024,
        gap_seconds_max: float = 10.0,
    ) -> None:
        self._attack = attack
        self._node = cluster.node(1)
        self._memory_bytes_max = memory_bytes_max
        # Generous, because test machines are busy: without the bounds in the node the gap was minutes.
        self._gap_seconds_max = gap_seconds_max
        self.honest = Honest(cluster.bootstrap)
        self._started = 0.0

    def __enter__(self) -> Siege:
        # Resets the kernel's peak of resident memory.
        Path(f"/proc/{self._node.pid}/clear_refs").write_text("5")
        self._started = time.monotonic()
        self.honest.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.honest.__exit__()
        if kind is not None:
            return
        honest = self.honest
        result = Result(
            self._attack, honest.longest_seconds, self.longest_turn_seconds(), honest.answers, self.peak_memory_bytes()
        )
        RESULTS.append(result)
        assert self._node.running
        assert "Traceback" not in self._node.output
        assert honest.answers
        assert honest.longest_seconds < self._gap_seconds_max, result
        # A busy machine slows down the node's loop and the reference by the same factor.
        turn = result.turn_seconds / max(reference_seconds() for _ in range(3))
        assert turn < TURN_MAX, f"{result}: the longest turn takes {turn:.0f} references"
        assert result.peak_bytes < self._memory_bytes_max, result

    def longest_turn_seconds(self) -> float:
        """Zero if no turn was long, or if the node does not record its turns."""
        notes = Path(os.environ.get("OTTLA_TURNS", ""))
        turns = [line.split() for line in notes.read_text().splitlines()] if notes.is_file() else []
        return max((float(seconds) for ended, seconds in turns if float(ended) > self._started), default=0.0)

    def peak_memory_bytes(self) -> int:
        lines = Path(f"/proc/{self._node.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
