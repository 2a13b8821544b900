"""A new topic from a table."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.lake.backfill import Backfill
from ottla.lake.errors import LakeError
from ottla.testing.clusters import node_environment
from tests.lake.lakes import Lake
from tests.support.spark_topics import Content, Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def contents(topics: Topics, name: str) -> list[tuple[Any, ...]]:
    return [
        (record.partition, record.key, record.value, list(record.headers), record.timestamp)
        for record in topics.read(name)
    ]


def test_every_record_once_and_in_order_also_after_an_interruption(
    spark: SparkSession, topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, copy = topics.create(partitions=2, retention_ms="-1"), topics.name()
    lake = Lake(topics, tmp_path)
    pipeline = lake.pipeline(spark, name)
    for first in (0, 6):
        for partition in (0, 1):
            portion: list[Content] = [
                (b"%d" % number, None if number == 3 else b"v", [("h", None)]) for number in range(first, first + 6)
            ]
            topics.send(name, portion[: 6 - partition], partition=partition, timestamp_ms=1_000 + first)
        pipeline.step()
    expected = contents(topics, name)

    # The work ends after the first portion; the table grows before it continues.
    work = Backfill(lake.settings, name, copy, portion=5)
    ends = work.ends
    work.ends = dict.fromkeys(ends, 5)
    work.run(spark)
    topics.send(name, [b"late"])
    pipeline.step()
    topics.delete(name)
    again = Backfill(lake.settings, name, copy)
    assert again.ends == ends == {0: 12, 1: 10}
    again.run(spark)
    again.run(spark)
    assert contents(topics, copy) == expected

    second_topic = topics.create(partitions=2)
    topics.send(second_topic, [b"x"])
    with pytest.raises(LakeError, match="has records already"):
        Backfill(lake.settings, name, second_topic)
    with pytest.raises(LakeError, match="There is no table"):
        Backfill(lake.settings, "unknown", copy)


def test_a_table_that_does_not_have_all_records_is_refused(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    name = topics.create(cleanup_policy="compact")
    topics.send(name, [(b"k", b"1", []), (b"k", b"2", [])])
    lake = Lake(topics, tmp_path, mode="upsert")
    lake.pipeline(spark, name).step()
    with pytest.raises(LakeError, match="is not a raw table"):
        Backfill(lake.settings, name, topics.name())
    with pytest.raises(LakeError, match="from an Iceberg table only"):
        Backfill(Lake(topics, tmp_path, format="delta").settings, name, topics.name())


@pytest.mark.faults
@pytest.mark.timeout(900)
def test_a_command_that_is_killed_continues_where_it_was(spark: SparkSession, topics: Topics, tmp_path: Path) -> None:
    """Killed twice with all of its processes, while it writes."""
    name, copy = topics.create(partitions=2), topics.create(partitions=2)
    for partition, count in ((0, 400), (1, 300)):
        portion: list[Content] = [(b"k", b"%d" % number, [("h", b"x")]) for number in range(count)]
        topics.send(name, portion, partition=partition)
    lake = Lake(topics, tmp_path)
    assert lake.pipeline(spark, name).step() == 700
    file = tmp_path / "lake.properties"
    file.write_text(f"bootstrap.servers={topics.bootstrap}\nwarehouse={tmp_path}\n")
    verb = ["lake", "backfill", str(file), "--topic", name, "--to", copy, "--portion", "20", "--json"]

    def started() -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "ottla.cli.main", *verb, "--master", "local[1,4]"]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, process_group=0, env=node_environment())

    for least in (40, 200):
        running = started()
        while len(topics.read(copy)) < least:
            assert running.poll() is None, "it ended before it was killed"
            time.sleep(0.05)
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
        print(f"killed after {len(topics.read(copy))} of 700 records")
    output, _ = started().communicate(timeout=600)
    assert json.loads(output)["offsets"] == {"0": 400, "1": 300}
    assert contents(topics, copy) == contents(topics, name)
