"""The cost of landing a topic: a raw Iceberg table of `ottla lake`, and Parquet files by Spark's own connector.

The connector takes the place of Apache Kafka; both read from the same Ottla node, in one session, alternating. Spark's
connector writes plain files of the same columns, without a table, offsets or a commit: Iceberg's runtime does not load
on this Spark, and its sink for Kafka Connect is published without the libraries that it needs. The figure is the CPU
time of Spark: the JVM and all Python processes, ended ones included. The first batches of each kind warm up the JVM and
the workers and do not count.

It runs in a separate process, so that Spark ends with it: `python -m bench.lake RUNS` prints the figures.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from bench.cases import Goal, Metrics
from bench.metrics import Special
from bench.runner import OURS, PEER, CaseFailedError, Result, alternating, as_result
from bench.spark_read import PARTITIONS, RECORDS, WARM_UP_RUNS, cpu_seconds, fill

__all__ = ["LANDING", "SPECIALS", "measure_landing"]

LANDING = "lake: a million records of 100 B landed, beside Parquet files by Spark's own connector"
GOALS = {"Spark CPU s/GB": Goal(ratio=1.0)}
GIGABYTES = RECORDS * 100 / 1e9
SECONDS_MAX = 600


def measure_landing(package: Path, directory: Path, runs: int) -> Result:  # noqa: ARG001
    command = [sys.executable, "-m", "bench.lake", str(runs)]
    # A copy of the package, so that its sources may change during the run.
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    if done.returncode != 0:
        raise CaseFailedError(done.stderr[-1000:])
    group, _, name = LANDING.partition(": ")
    return as_result(group, name, GOALS, json.loads(done.stdout.splitlines()[-1]))


def main(runs: int) -> dict[str, list[Metrics]]:
    import ottla.spark
    import ottla.testing

    measured: dict[str, list[Metrics]] = {PEER: [], OURS: []}
    with (
        ottla.testing.cluster(settings={"num.partitions": str(PARTITIONS)}) as cluster,
        tempfile.TemporaryDirectory() as scratch,
    ):
        fill(cluster.bootstrap)
        spark = ottla.spark.session("bench", jvm_connector=True)
        for number in range(WARM_UP_RUNS + runs):
            for who in alternating([PEER, OURS], number):
                land = land_by_connector if who == PEER else land_in_table
                begun, before = time.monotonic(), cpu_seconds(cluster.node(1).pid)
                land(spark, cluster.bootstrap, f"{scratch}/{number}")
                spent = cpu_seconds(cluster.node(1).pid) - before
                if number >= WARM_UP_RUNS:
                    rate = RECORDS / (time.monotonic() - begun)
                    measured[who].append({"Spark CPU s/GB": spent / GIGABYTES, "records/s": rate})
        spark.stop()
    return measured


def land_by_connector(spark: Any, bootstrap: str, directory: str) -> None:
    records = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("includeHeaders", "true")
    records.option("subscribe", "bench").load().drop("topic").write.option("compression", "zstd").parquet(
        f"{directory}-files"
    )


def land_in_table(spark: Any, bootstrap: str, directory: str) -> None:
    from ottla.lake.pipeline import TablePipeline
    from ottla.lake.settings import read_settings
    from ottla.spark.tables import open_catalog

    settings = read_settings({"bootstrap.servers": bootstrap, "warehouse": f"{directory}-table"})
    pipeline = TablePipeline(spark, open_catalog(settings.catalog), settings, settings.table("bench", {}))
    assert pipeline.step() == RECORDS


SPECIALS: tuple[Special, ...] = ((LANDING, 30.0, measure_landing),)

if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]))))
