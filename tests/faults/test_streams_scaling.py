"""Applications of `ottla.streams` emit exactly what an undisturbed run emits while workers come and go under load."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

import ottla.testing
from ottla.model.errors import KafkaError
from tests.faults.test_streams_kills import Run
from tests.support.copiers import CLUSTER_SETTINGS
from tests.support.kept_logs import keep_logs

pytestmark = [pytest.mark.faults, pytest.mark.timeout(0)]

WORKERS = 4
WAIT_SECONDS = 240.0


@contextmanager
def load(run: Run) -> Iterator[None]:
    """Writes about 200 records a second, all the time."""
    is_over = threading.Event()

    def write() -> None:
        while not is_over.wait(0.05):
            run.write(10)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        is_over.set()
        writer.join()


def busy_workers(run: Run, kind: str) -> int:
    """The members with tasks; 0 while a rebalance is under way."""
    group = f"app-{kind}"
    group_state = run.live.admin.call(lambda admin: admin.groups.describe([group]))[group]
    if isinstance(group_state, KafkaError) or group_state.state != "Stable":
        return 0
    return len([member for member in group_state.members if member.assignment])


def wait_for_workers(run: Run, wanted: int, seconds: float) -> None:
    """Waits until every application has this number of workers with tasks and has made new commits."""
    end = time.monotonic() + WAIT_SECONDS
    while wrong := [kind for kind in run.kinds if busy_workers(run, kind) != wanted]:
        assert time.monotonic() < end, f"{wrong} do not work with {wanted} workers"
        time.sleep(0.2)
    before = {kind: run.committed(kind) for kind in run.kinds}
    time.sleep(seconds)
    while waiting := [kind for kind in run.kinds if run.committed(kind) <= before[kind]]:
        assert time.monotonic() < end, f"{waiting} commit nothing with {wanted} workers"
        time.sleep(0.2)


def test_results_are_exact_while_workers_come_and_go(faults_seconds: float, faults_seed: int, tmp_path: Path) -> None:
    """From one worker to four and back to one, which is not the first worker."""
    random = Random(faults_seed)
    pause = faults_seconds / (2 * WORKERS)
    with (
        ottla.testing.cluster(nodes=3, controllers=3, settings=CLUSTER_SETTINGS) as cluster,
        keep_logs(cluster, tmp_path / "logs"),
    ):
        run = Run(cluster, tmp_path, "exactly_once_v2", random, instances=1, partitions=WORKERS)
        try:
            with load(run):
                run.keep_running()
                wait_for_workers(run, 1, pause)
                while len(run.instances) < WORKERS:
                    run.instances.append(run.new_instance(len(run.instances), "exactly_once_v2"))
                    run.keep_running()
                    wait_for_workers(run, len(run.instances), pause)
                while len(run.instances) > 1:
                    run.instances.pop(0).stop()
                    wait_for_workers(run, len(run.instances), pause)
            differences_by_kind = run.finish()
        finally:
            run.close()
    assert not any(differences_by_kind.values()), differences_by_kind
