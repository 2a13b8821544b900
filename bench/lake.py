"""The cost of landing a topic: a raw Iceberg table of `ottla lake`, and Parquet files by Spark's own connector.

The connector takes the place of Apache Kafka; both read from the same Ottla node, in one session, alternating. Spark's
connector writes plain files of the same columns, without a table, offsets or a commit, because Iceberg's runtime does
not load on this Spark. `bench.lake_sink` has Iceberg's own sink for Kafka Connect. `bench.on_spark` says what is
measured.
"""

from __future__ import annotations

import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from bench.cases import Goal, Metrics
from bench.metrics import Special
from bench.on_spark import PARTITIONS, RECORDS, TOPIC, Spent, alternated, fill, measured_alone
from bench.runner import OURS, PEER, Result

__all__ = ["LANDING", "SPECIALS", "measure_landing"]

LANDING = "lake: a million records of 100 B landed, beside Parquet files by Spark's own connector"
GOALS = {"Spark CPU s/GB": Goal(ratio=1.0)}
GIGABYTES = RECORDS * 100 / 1e9


def measure_landing(package: Path, directory: Path, runs: int) -> Result:  # noqa: ARG001
    return measured_alone(LANDING, "lake", GOALS, package=package, runs=runs)


def main(runs: int) -> dict[str, list[Metrics]]:
    import ottla.spark
    import ottla.testing

    with (
        ottla.testing.cluster(settings={"num.partitions": str(PARTITIONS)}) as cluster,
        tempfile.TemporaryDirectory() as scratch,
    ):
        fill(cluster.bootstrap)
        spark = ottla.spark.session("bench", jvm_connector=True)
        works = {
            PEER: partial(land_by_connector, spark, cluster.bootstrap, scratch),
            OURS: partial(land_in_table, spark, cluster.bootstrap, scratch),
        }
        measured = alternated(runs, works, metrics, node_pid=cluster.node(1).pid)
        spark.stop()
    return measured


def land_by_connector(spark: Any, bootstrap: str, directory: str, run: int) -> None:
    records = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("includeHeaders", "true")
    rows = records.option("subscribe", TOPIC).load().drop("topic")
    rows.write.option("compression", "zstd").parquet(f"{directory}/{run}-files")


def land_in_table(spark: Any, bootstrap: str, directory: str, run: int) -> None:
    from ottla.lake.catalogs import IcebergStore
    from ottla.lake.pipeline import TablePipeline
    from ottla.lake.settings import read_settings
    from ottla.spark.tables import open_catalog

    settings = read_settings({"bootstrap.servers": bootstrap, "warehouse": f"{directory}/{run}-table"})
    store = IcebergStore(open_catalog(settings.catalog))
    pipeline = TablePipeline(spark, store, settings, settings.table(TOPIC, {}))
    assert pipeline.step() == RECORDS


def metrics(spent: Spent) -> Metrics:
    cpu_seconds, seconds = spent
    return {"Spark CPU s/GB": cpu_seconds / GIGABYTES, "records/s": RECORDS / seconds}


SPECIALS: tuple[Special, ...] = ((LANDING, 30.0, measure_landing),)

if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]))))
