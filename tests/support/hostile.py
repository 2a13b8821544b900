"""What the tests with attackers share: an honest client that is watched, and the table of their results."""

from __future__ import annotations

import math
import threading
import time
from pathlib import Path
from typing import NamedTuple

import ottla.testing
from ottla.model.errors import ErrorCode
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from tests.support.bystander import Bystander
from tests.support.raw_client import RawClient
from tests.support.reference import TURN_MAX, reference_seconds

__all__ = ["RESULTS", "Honest", "Result", "Siege", "create"]


class Result(NamedTuple):
    attack: str
    longest_seconds: float
    # The longest CPU time of the node's loop between two answers to the honest client. It does not depend on what other
    # processes do on the machine.
    blocked_seconds: float
    answers: int
    peak_bytes: int


# Printed at the end of the run (conftest.py).
RESULTS: list[Result] = []


def create(bootstrap: str, name: str, partitions: int = 1, **configs: str) -> None:
    values = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=values)
    with RawClient(bootstrap) as client:
        answer = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
    assert answer.topics[0].error_code == ErrorCode.NONE, answer


class Honest:
    """Asks for API versions without a pause, and measures the longest time between two answers.

    With the process id of the node it also measures the CPU time of the node's loop between two answers.
    """

    def __init__(self, bootstrap: str, pid: int | None = None) -> None:
        self._bootstrap = bootstrap
        self._pid = pid
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.longest_seconds = 0.0
        self.blocked_seconds = 0.0
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
                last, last_worked = time.monotonic(), self._loop_seconds()
                while not self._ends.is_set():
                    bystander.asks()
                    now, worked = time.monotonic(), self._loop_seconds()
                    self.longest_seconds = max(self.longest_seconds, now - last)
                    self.blocked_seconds = max(self.blocked_seconds, worked - last_worked)
                    self.answers += 1
                    last, last_worked = now, worked
        except OSError:
            # No answer at all.
            self.longest_seconds = math.inf

    def _loop_seconds(self) -> float:
        """The CPU time of the node's main thread, which runs its loop."""
        if self._pid is None:
            return 0.0
        return int(Path(f"/proc/{self._pid}/task/{self._pid}/schedstat").read_text().split()[0]) / 1e9


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
        # Machines that run these tests are busy, so this is no figure: before the bounds, it was minutes.
        self._gap_seconds_max = gap_seconds_max
        self.honest = Honest(cluster.bootstrap, self._node.pid)

    def __enter__(self) -> Siege:
        # The largest memory is counted from here on.
        Path(f"/proc/{self._node.pid}/clear_refs").write_text("5")
        self.honest.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.honest.__exit__()
        if kind is not None:
            return
        honest = self.honest
        result = Result(
            self._attack, honest.longest_seconds, honest.blocked_seconds, honest.answers, self.peak_memory_bytes()
        )
        RESULTS.append(result)
        assert self._node.running
        assert "Traceback" not in self._node.output
        assert honest.answers
        assert honest.longest_seconds < self._gap_seconds_max, result
        # A busy machine slows down the node's loop as it slows down this.
        turn = honest.blocked_seconds / max(reference_seconds() for _ in range(3))
        assert turn < TURN_MAX, f"{result}: the loop worked for {turn:.0f} references in a row"
        assert result.peak_bytes < self._memory_bytes_max, result

    def peak_memory_bytes(self) -> int:
        lines = Path(f"/proc/{self._node.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
