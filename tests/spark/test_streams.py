"""A streams application as a Spark job: exact results, also when a worker process is killed."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from examples.streams.word_count import build
from ottla.streams import Application
from tests.streams.live import Live, eventually

if TYPE_CHECKING:
    from ottla.testing import Cluster

pytestmark = pytest.mark.spark


def worker_processes() -> set[int]:
    """The Python workers of Spark below this process that have a connection to the broker."""
    pids = set()
    for child in psutil.Process().children(recursive=True):
        try:
            words = " ".join(child.cmdline())
        except psutil.Error:
            continue
        if "daemon" in words and not child.children():
            pids.add(child.pid)
    return pids


def test_a_killed_worker_is_replaced_and_counts_stay_exact(spark_cluster: Cluster, tmp_path: Path) -> None:
    live = Live(spark_cluster.bootstrap)
    live.create("spark-lines", "spark-counts")
    settings = {
        "application.id": "spark-words",
        "bootstrap.servers": live.bootstrap,
        "processing.guarantee": "exactly_once_v2",
        "state.dir": live.state_directory,
        "num.stream.threads": 1,
        "commit.interval.ms": 50,
    }
    lines = [(None, f"word{number % 7} common") for number in range(3000)]
    application = Application(build("spark-lines", "spark-counts"), settings)
    application.start()
    application.wait_running(120)
    live.write("spark-lines", lines[:1500])
    eventually(lambda: len(live.read("spark-counts")) > 0)
    victims = worker_processes()
    assert victims
    for pid in victims:
        os.kill(pid, signal.SIGKILL)
    live.write("spark-lines", lines[1500:])
    eventually(lambda: len(live.read("spark-counts")) >= 6000, 120)
    assert application.close()
    wanted = Counter(word for _, line in lines for word in line.split())
    seen: dict[str, list[int]] = {}
    for key, value in live.read("spark-counts"):
        assert value is not None
        seen.setdefault(key, []).append(int(value))
    assert seen == {word: list(range(1, count + 1)) for word, count in wanted.items()}
    live.close()
