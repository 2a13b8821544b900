"""The cost of reading a topic with Spark: Ottla's source and Spark's own Kafka connector, alternating in one session.

The connector takes the place of Apache Kafka; both read from the same Ottla node. `bench.on_spark` says what is
measured.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from bench.cases import Goal, Metrics
from bench.metrics import Special
from bench.on_spark import PARTITIONS, RECORDS, TOPIC, Spent, alternated, fill, measured_alone
from bench.runner import OURS, PEER, Result

__all__ = ["READING", "SPECIALS", "measure_reading"]

READING = "spark: a million records of 100 B, beside Spark's own connector"
GOALS = {"Spark CPU s": Goal(ratio=1.0)}
FORMATS = {PEER: "kafka", OURS: "ottla"}


def measure_reading(package: Path, directory: Path, runs: int) -> Result:  # noqa: ARG001
    return measured_alone(READING, "spark_read", GOALS, package=package, runs=runs)


def main(runs: int) -> dict[str, list[Metrics]]:
    import ottla.spark
    import ottla.testing

    with ottla.testing.cluster(settings={"num.partitions": str(PARTITIONS)}) as cluster:
        fill(cluster.bootstrap)
        spark = ottla.spark.session("bench", jvm_connector=True)
        works = {side: partial(read, spark, cluster.bootstrap, name) for side, name in FORMATS.items()}
        measured = alternated(runs, works, metrics, node_pid=cluster.node(1).pid)
        spark.stop()
    return measured


def read(spark: Any, bootstrap: str, name: str, run: int) -> None:  # noqa: ARG001
    records = spark.read.format(name).option("kafka.bootstrap.servers", bootstrap).option("subscribe", TOPIC).load()
    records.write.format("noop").mode("overwrite").save()


def metrics(spent: Spent) -> Metrics:
    cpu_seconds, seconds = spent
    return {"Spark CPU s": cpu_seconds, "records/s": RECORDS / seconds}


SPECIALS: tuple[Special, ...] = ((READING, 20.0, measure_reading),)

if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]))))
