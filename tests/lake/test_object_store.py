"""Delta tables in an object store: files and the log are there, and of two pipelines one is overtaken."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from ottla.lake.columns import RAW_SCHEMA
from ottla.lake.delta import DeltaLakeTable, DeltaStore
from ottla.lake.errors import LakeError, Overtaken
from ottla.lake.settings import catalog_properties, read_settings
from ottla.lake.stores import NewTable
from ottla.spark.tables import Position
from tests.support.object_store import ObjectStore, object_store

LOCATION = "s3://bucket/warehouse"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    with object_store() as running:
        for name, value in running.environment.items():
            monkeypatch.setenv(name, value)
        yield running


def opened(partition_by: tuple[str, ...] = ()) -> DeltaLakeTable:
    new = NewTable(
        identifier=("lake", "orders"),
        columns=RAW_SCHEMA,
        topic="orders",
        topic_id="id",
        mode="raw",
        partition_by=partition_by,
    )
    return DeltaStore(LOCATION).open_or_create(new)


def rows(first: int, end: int) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {"partition": 0, "offset": offset, "timestamp": 0, "timestamp_type": 0, "value": b"v", "headers": []}
            for offset in range(first, end)
        ],
        schema=RAW_SCHEMA,
    )


def at(offset: int) -> Position:
    return Position("orders", "id", {0: offset})


@pytest.mark.parametrize("partition_by", [(), ("day(timestamp)",)])
def test_a_batch_lands_once(bucket: ObjectStore, partition_by: tuple[str, ...]) -> None:
    table = opened(partition_by)
    assert table.position() is None
    files = table.target().write(rows(0, 10))
    table.commit(files, None, at(10), commit_id="first")
    again = opened(partition_by)
    assert again.position() == at(10)
    assert sorted(again.places(0, 100)["offset"].to_pylist()) == list(range(10))
    assert again.target().read(files[0]["path"])["offset"].to_pylist() == list(range(10))
    assert f"warehouse/lake/orders/{files[0]['path']}" in bucket.keys("warehouse/")


def test_one_of_two_pipelines_is_overtaken_and_leaves_no_file(bucket: ObjectStore) -> None:
    first, second = opened(), opened()
    outcomes: list[str] = []

    def commit(table: DeltaLakeTable, end: int) -> None:
        try:
            table.commit(table.target().write(rows(0, end)), None, at(end), commit_id=str(end))
            outcomes.append(f"{end} landed")
        except Overtaken:
            outcomes.append("overtaken")

    threads = [threading.Thread(target=commit, args=pair) for pair in ((first, 5), (second, 7))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(outcomes) in (["5 landed", "overtaken"], ["7 landed", "overtaken"])
    landed = int(min(outcomes)[0])
    table = opened()
    assert table.position() == at(landed)
    assert table.places(0, 100).num_rows == landed
    assert len([key for key in bucket.keys("warehouse/") if key.endswith(".parquet")]) == 1


def test_a_warehouse_of_delta_tables_alone_needs_no_catalog() -> None:
    properties = {"warehouse": LOCATION, "bootstrap.servers": "localhost:1"}
    assert catalog_properties({**properties, "format": "delta"})["warehouse"] == LOCATION
    assert read_settings({**properties, "format": "delta"}).catalog["warehouse"] == LOCATION
    for more in ({}, {"format": "delta", "topic.orders.format": "iceberg"}):
        with pytest.raises(LakeError, match=r"catalog\.uri"):
            catalog_properties({**properties, **more})
