"""The cost of reading a topic with Spark: Ottla's source and Spark's own Kafka connector, alternating in one session.

The connector takes the place of Apache Kafka; both read from the same Ottla node. The figure is the CPU time of Spark:
the JVM and all Python processes, ended ones included. The first query of each kind warms up the JVM and the workers and
does not count.

It runs in a separate process, so that Spark ends with it: `python -m bench.spark_read RUNS` prints the figures.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Producer

from bench.cases import Goal, Metrics
from bench.metrics import Special
from bench.runner import OURS, PEER, CaseFailedError, Result, alternating, as_result

__all__ = ["READING", "SPECIALS", "measure_reading"]

GROUP = "spark"
READING = f"{GROUP}: a million records of 100 B, beside Spark's own connector"
RECORDS = 1_000_000
PARTITIONS = 2
GOALS = {"Spark CPU s": Goal(ratio=1.0)}
FORMATS = {PEER: "kafka", OURS: "ottla"}
WARM_UP_RUNS = 2
SECONDS_MAX = 600


def measure_reading(package: Path, directory: Path, runs: int) -> Result:  # noqa: ARG001
    command = [sys.executable, "-m", "bench.spark_read", str(runs)]
    # A copy of the package, so that its sources may change during the run.
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    if done.returncode != 0:
        raise CaseFailedError(done.stderr[-1000:])
    group, _, name = READING.partition(": ")
    return as_result(group, name, GOALS, json.loads(done.stdout.splitlines()[-1]))


def main(runs: int) -> dict[str, list[Metrics]]:
    import ottla.spark
    import ottla.testing

    measured: dict[str, list[Metrics]] = {PEER: [], OURS: []}
    with ottla.testing.cluster(settings={"num.partitions": str(PARTITIONS)}) as cluster:
        fill(cluster.bootstrap)
        spark = ottla.spark.session("bench", jvm_connector=True)
        for number in range(WARM_UP_RUNS + runs):
            for who in alternating(list(FORMATS), number):
                frame = spark.read.format(FORMATS[who]).option("kafka.bootstrap.servers", cluster.bootstrap)
                metrics = measured_query(frame.option("subscribe", "bench").load, cluster.node(1).pid)
                if number >= WARM_UP_RUNS:
                    measured[who].append(metrics)
        spark.stop()
    return measured


def fill(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "batch.num.messages": 1000})
    value = os.urandom(100)
    for number in range(RECORDS):
        while True:
            try:
                producer.produce("bench", value, partition=number % PARTITIONS)
            except BufferError:
                producer.poll(0.05)
            else:
                break
    assert producer.flush(60) == 0


def measured_query(load: Callable[[], Any], node_pid: int) -> Metrics:
    begun, before = time.monotonic(), cpu_seconds(node_pid)
    load().write.format("noop").mode("overwrite").save()
    return {
        "Spark CPU s": cpu_seconds(node_pid) - before,
        "records/s": RECORDS / (time.monotonic() - begun),
    }


def cpu_seconds(node_pid: int) -> float:
    """CPU time of this process and its descendants, ended ones included, without the node."""
    total = 0.0
    here = psutil.Process()
    for process in [here, *here.children(recursive=True)]:
        try:
            if process.pid != node_pid:
                total += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total


SPECIALS: tuple[Special, ...] = ((READING, 20.0, measure_reading),)

if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]))))
