"""Landing a topic: `ottla lake`, and Iceberg's own sink for Kafka Connect, on the same node of ours.

Both run in separate processes at the same time; the one that is not measured is idle. Both commit every second and
write the same columns, but the sink writes no headers. The figures are the time from the availability of the input to
the commit of its last record, and the CPU time of all processes of the contestant.
"""

from __future__ import annotations

import functools
import json
import shutil
import sys
from contextlib import ExitStack
from pathlib import Path

import ottla.testing
from bench.cases import Goal, Metrics
from bench.metrics import Special
from bench.pipelines import BYTES, PARTITIONS, create_topics, fill_topic, metered
from bench.runner import OURS, PEER, Result, alternating, as_result
from bench.workers import Contestant, kafka_connect
from tests.support import jars

__all__ = ["SINK", "SPECIALS", "measure_sink"]

SINK = "lake: a million records of 100 B landed, beside Iceberg's sink for Kafka Connect"
GOALS = {"records/s": Goal(ratio=2.0, at_most=False), "CPU s/GB": Goal(ratio=0.5)}
RECORDS = 1_000_000
WARM_UP_RECORDS = 100_000
WARM_UP_RUNS = 2
JARS = Path(__file__).resolve().parent / "iceberg"
COMMIT_MS = "1000"
CONTROL = "control-iceberg"
INPUTS = {PEER: "input", OURS: "origin"}


def measure_sink(package: Path, directory: Path, runs: int) -> Result:
    measured: dict[str, list[Metrics]] = {PEER: [], OURS: []}
    with ottla.testing.cluster() as cluster, ExitStack() as stack:
        create_topics(cluster.bootstrap, {**dict.fromkeys(INPUTS.values(), PARTITIONS), CONTROL: 1})
        contestants = {
            PEER: stack.enter_context(iceberg_sink(cluster.bootstrap, directory / PEER)),
            OURS: stack.enter_context(ottla_lake(cluster.bootstrap, directory / OURS, package)),
        }
        # One record first: tasks of the sink that create the table at the same time would fail.
        written = 1
        for side, contestant in contestants.items():
            fill_topic(cluster.bootstrap, INPUTS[side], written)
            contestant.wait_for(functools.partial(has_rows, _table(directory, side), written), pause_s=0.1)
        for number in range(WARM_UP_RUNS + runs):
            counts = number >= WARM_UP_RUNS
            records = RECORDS if counts else WARM_UP_RECORDS
            written += records
            for side in alternating(list(measured), number):
                contestant, table = contestants[side], _table(directory, side)
                # Frozen while its input is produced, so that the measurement begins with the whole input.
                with contestant.frozen():
                    fill_topic(cluster.bootstrap, INPUTS[side], records)
                with metered(contestant, cluster.node(1).pid, records) as metrics:
                    contestant.wait_for(functools.partial(has_rows, table, written), pause_s=0.1)
                if counts:
                    measured[side].append(metrics)
    shutil.rmtree(directory)
    group, _, name = SINK.partition(": ")
    return as_result(group, name, GOALS, measured)


def _table(directory: Path, side: str) -> Path:
    return directory / side / "warehouse" / "lake" / INPUTS[side]


def iceberg_sink(bootstrap: str, place: Path) -> Contestant:
    # Each directory of the plugin path is a plugin.
    plugins = place / "plugins"
    plugins.mkdir(parents=True)
    (plugins / "iceberg").symlink_to(jars.fetch(JARS))
    transform = "org.apache.kafka.connect.transforms"
    connector = {
        "name": "sink",
        "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
        "tasks.max": str(PARTITIONS),
        "topics": INPUTS[PEER],
        "key.converter": BYTES,
        "value.converter": BYTES,
        "transforms": "row,place",
        "transforms.row.type": f"{transform}.HoistField$Value",
        "transforms.row.field": "value",
        "transforms.place.type": f"{transform}.InsertField$Value",
        "transforms.place.partition.field": "partition",
        "transforms.place.offset.field": "offset",
        "transforms.place.timestamp.field": "timestamp",
        "iceberg.tables": f"lake.{INPUTS[PEER]}",
        "iceberg.tables.auto-create-enabled": "true",
        "iceberg.catalog.type": "hadoop",
        "iceberg.catalog.warehouse": str(place / "warehouse"),
        "iceberg.control.topic": CONTROL,
        "iceberg.control.commit.interval-ms": COMMIT_MS,
        "iceberg.kafka.bootstrap.servers": bootstrap,
    }
    # A task without records takes part in a commit only when the worker commits offsets; by default once a minute.
    return kafka_connect(bootstrap, place, [connector], plugin_path=str(plugins), offset_flush_interval_ms=COMMIT_MS)


def ottla_lake(bootstrap: str, place: Path, package: Path) -> Contestant:
    place.mkdir(parents=True)
    keys = {
        "bootstrap.servers": bootstrap,
        "warehouse": str(place / "warehouse"),
        "topics": INPUTS[OURS],
        "commit.interval.ms": COMMIT_MS,
    }
    file = place / "lake.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    command = [sys.executable, "-m", "ottla.cli.main", "lake", "run", str(file)]
    return Contestant(command, place, {"PYTHONPATH": str(package.parent)})


def has_rows(table: Path, count: int) -> bool:
    """True if the newest snapshot has at least `count` rows. Both catalogs keep the metadata in the same folder."""
    try:
        newest = max(table.glob("metadata/*.metadata.json"), key=lambda path: path.stat().st_mtime_ns)
        metadata = json.loads(newest.read_text())
    except (OSError, ValueError):
        # There is no table yet, or its metadata is replaced at this moment.
        return False
    current = metadata.get("current-snapshot-id")
    snapshots = [snapshot for snapshot in metadata.get("snapshots", ()) if snapshot["snapshot-id"] == current]
    return bool(snapshots) and int(snapshots[0]["summary"]["total-records"]) >= count


SPECIALS: tuple[Special, ...] = ((SINK, 60.0, measure_sink),)
