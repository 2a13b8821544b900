"""Directories as source and sink, called directly: formats, partitions, and batches that come again after a crash."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow
import pyarrow.csv
import pyarrow.parquet
import pytest

from ottla.connect.api import Batch, ConnectError, ReadLimit, Task
from ottla.connect.plugins.connectors import directory_sink
from ottla.connect.plugins.connectors.directory_sink import DirectorySinkConnector, DirectoryWriter
from ottla.connect.plugins.connectors.directory_source import DirectoryReader, DirectorySourceConnector

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


def batch(number: int) -> Batch:
    return Batch(id=number, epoch="e", ranges=(), task=Task(connector="c", number=0, config={}))


def writer(path: Path, kind: str, **config: str) -> DirectoryWriter:
    properties = {name.replace("_", "."): text for name, text in config.items()}
    return DirectoryWriter(
        DirectorySinkConnector.config_definitions().parse({"path": str(path), "format": kind, **properties})
    )


def frame(spark: SparkSession, first: int, last: int) -> DataFrame:
    return spark.sql(
        f"SELECT named_struct('id', id, 'color', if(id % 2 = 0, 'red', 'a b/c'), 'tags', array(string(id))) AS value, "
        f"'t' AS topic, 0 AS partition, id AS offset, timestamp_seconds(1700000000 + id * 86400) AS timestamp "
        f"FROM range({first}, {last}, 1, 2)"
    )


def ids(path: Path, kind: str) -> list[int]:
    """All ids that any reader of the directory would see."""
    all_ids: list[int] = []
    for file in sorted(path.rglob("*")):
        if not file.is_file() or any(part.startswith(("_", ".")) for part in file.relative_to(path).parts):
            continue
        if kind == "parquet":
            all_ids += pyarrow.parquet.ParquetFile(file).read().column("id").to_pylist()
        elif kind == "json":
            all_ids += [json.loads(line)["id"] for line in file.read_text().splitlines()]
        elif kind == "csv":
            all_ids += pyarrow.csv.read_csv(file).column("id").to_pylist()
        else:
            with file.open("rb") as opened:
                all_ids += [row["id"] for row in fastavro.reader(opened)]
    return sorted(all_ids)


@pytest.mark.parametrize("kind", ["parquet", "json", "csv", "avro"])
def test_a_batch_is_there_once_however_often_it_comes(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    target = writer(tmp_path, kind, partition_by="color")
    target.write(frame(spark, 0, 6), batch(0))
    target.write(frame(spark, 0, 6), batch(0))
    writer(tmp_path, kind, partition_by="color").write(frame(spark, 6, 9), batch(1))
    assert ids(tmp_path, kind) == list(range(9))
    places = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert places == {"_ottla", "color=red", "color=a b%2Fc"}


def test_a_crash_at_any_step_is_mended_by_the_next_try(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = {
        "before the manifest": (directory_sink, "create_durably"),
        "before files are moved": (DirectoryWriter, "_move"),
        "after files were moved": (DirectoryWriter, "_forget_old"),
    }
    for number, (name, (owner, attribute)) in enumerate(steps.items()):
        with monkeypatch.context() as patch:
            patch.setattr(owner, attribute, _crash)
            with pytest.raises(KeyboardInterrupt):
                writer(tmp_path, "json").write(frame(spark, number * 10, number * 10 + 3), batch(number))
        writer(tmp_path, "json").write(frame(spark, number * 10, number * 10 + 3), batch(number))
        assert len(ids(tmp_path, "json")) == 3 * (number + 1), name
    assert ids(tmp_path, "json") == [0, 1, 2, 10, 11, 12, 20, 21, 22]


def test_half_moved_files_are_finished(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    moved = iter([True, False])
    replace = Path.replace

    def sometimes(path: Path, target: Path) -> Path:
        if ".staging" in str(path) and path.name.startswith("part") and not next(moved):
            raise KeyboardInterrupt
        return replace(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", sometimes)
        with pytest.raises(KeyboardInterrupt):
            writer(tmp_path, "json").write(frame(spark, 0, 8), batch(0))
    assert 0 < len(ids(tmp_path, "json")) < 8
    writer(tmp_path, "json").write(frame(spark, 0, 8), batch(0))
    assert ids(tmp_path, "json") == list(range(8))


def test_two_workers_that_both_think_they_have_the_task(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = directory_sink.create_durably

    def overtaken(path: Path, text: str) -> None:
        """The other worker writes the same batch just before the slower worker writes its manifest."""
        monkeypatch.setattr(directory_sink, "create_durably", create)
        writer(tmp_path, "json").write(frame(spark, 0, 4), batch(0))
        create(path, text)

    monkeypatch.setattr(directory_sink, "create_durably", overtaken)
    writer(tmp_path, "json").write(frame(spark, 0, 4), batch(0))
    assert ids(tmp_path, "json") == [0, 1, 2, 3]
    assert [manifest.name for manifest in (tmp_path / "_ottla").iterdir()] == [f"{batch(0).identity}.json"]


def test_only_the_last_manifests_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(4):
        writer(tmp_path, "json").write(frame(spark, number, number + 1), batch(number))
    names = sorted(path.name for path in (tmp_path / "_ottla").iterdir())
    assert names == [f"{batch(2).identity}.json", f"{batch(3).identity}.json"]


def test_time_and_metadata_become_columns(spark: SparkSession, tmp_path: Path) -> None:
    config = {"partition_time": "yyyy-MM-dd", "columns_metadata": "topic,offset", "files_per_batch": "1"}
    writer(tmp_path, "json", **config).write(frame(spark, 0, 2), batch(0))
    files = sorted(tmp_path.glob("time=*/*.json"))
    assert [file.parent.name for file in files] == ["time=2023-11-14", "time=2023-11-15"]
    row = json.loads(files[0].read_text())
    assert row == {"id": 0, "color": "red", "tags": ["0"], "_topic": "t", "_offset": 0}


def test_a_column_that_is_not_there_is_said(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match="shape"):
        writer(tmp_path, "json", partition_by="shape").write(frame(spark, 0, 1), batch(0))


def reader(path: Path, kind: str, *, task: int = 0, tasks: int = 1, **config: str) -> DirectoryReader:
    properties = {"path": str(path), "topic": "t", "format": kind, "settle.ms": "0"}
    properties |= {name.replace("_", "."): text for name, text in config.items()}
    return DirectoryReader(DirectorySourceConnector.config_definitions().parse(properties), task=task, tasks=tasks)


def rows(
    source_reader: DirectoryReader, partition: Mapping[str, Any], limit: int = 1000
) -> Iterator[list[dict[str, Any]]]:
    """Batch by batch until the file is done."""
    offset = None
    while True:
        end = source_reader.latest(partition, offset, ReadLimit(records=limit))
        if end == offset:
            return
        assert end is not None
        batches = source_reader.read(partition, offset, end)
        yield [row["value"] for record_batch in batches for row in record_batch.to_pylist()]
        offset = end


def fill(path: Path) -> list[dict[str, Any]]:
    wanted = [{"id": number, "name": f"n{number}"} for number in range(5)]
    table = pyarrow.Table.from_pylist(wanted)
    pyarrow.parquet.write_table(table, path / "a.parquet")
    pyarrow.csv.write_csv(table, path / "a.csv")
    (path / "a.json").write_text("".join(json.dumps(row) + "\n" for row in wanted))
    schema = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}],
    }
    with (path / "a.avro").open("wb") as file:
        fastavro.writer(file, schema, wanted)
    return wanted


@pytest.mark.parametrize("kind", ["parquet", "json", "csv", "avro"])
def test_rows_of_files_in_any_portions(tmp_path: Path, kind: str) -> None:
    wanted = fill(tmp_path)
    source_reader = reader(tmp_path, kind, files=f"*.{kind}")
    (partition,) = source_reader.partitions()
    assert partition == {"file": f"a.{kind}"}
    assert list(rows(source_reader, partition)) == [wanted]
    assert list(rows(source_reader, partition, limit=2)) == [wanted[:2], wanted[2:4], wanted[4:]]
    assert source_reader.schema(partition).simpleString() == "struct<value:struct<id:bigint,name:string>>"


def test_schemas_keys_and_files_that_are_not_meant(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "_hidden.json").write_text("{}\n")
    (tmp_path / "part.json.tmp").write_text("{}\n")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.json").write_text('{"id": 7}\n')
    source_reader = reader(tmp_path, "json", files="*.json", schema="id int, at date", key_field="id")
    names = [partition["file"] for partition in source_reader.partitions()]
    assert names == ["a.json", "sub/b.json"]
    assert source_reader.schema({"file": "a.json"}).simpleString() == "struct<key:int,value:struct<id:int,at:date>>"
    ((row,),) = rows(source_reader, {"file": "sub/b.json"})
    assert row == {"id": 7, "at": None}


def test_each_file_belongs_to_one_task(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"{number}.json").write_text('{"id": 1}\n')
    shares = [
        {str(partition["file"]) for partition in reader(tmp_path, "json", task=task, tasks=3).partitions()}
        for task in range(3)
    ]
    assert sum(len(share) for share in shares) == 40
    assert len(set.union(*shares)) == 40
    assert all(shares)


def test_many_files_come_in_portions_and_read_ones_no_more(tmp_path: Path) -> None:
    for number in range(450):
        (tmp_path / f"{number:03d}.json").write_text('{"id": 1}\n')
    source_reader = reader(tmp_path, "json")
    seen: list[str] = []
    while partitions := source_reader.partitions():
        batch = []
        for number, partition in enumerate(partitions):
            end = source_reader.latest(partition, None, ReadLimit())
            if end is None:
                continue
            batch.append(str(partition["file"]))
            assert end == {"row": 1, "done": True}
            # Some files are confirmed as written; others count as read before this reader began.
            if number % 2:
                source_reader.committed(partition, end)
            else:
                assert source_reader.latest(partition, end, ReadLimit()) == end
        assert len(batch) <= 200
        seen += batch
    assert sorted(seen) == sorted({f"{number:03d}.json" for number in range(450)})


def test_a_file_that_still_changes_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"id": 1}\n')
    assert not reader(tmp_path, "json", settle_ms="60000").partitions()


def test_types_of_parquet_that_spark_does_not_have(tmp_path: Path) -> None:
    moment = datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC)
    table = pyarrow.table(
        {
            "u": pyarrow.array([1], pyarrow.uint32()),
            "ns": pyarrow.array([moment], pyarrow.timestamp("ns", tz="UTC")),
            "d": pyarrow.array(["x"]).dictionary_encode(),
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    source_reader = reader(tmp_path, "parquet")
    ((row,),) = rows(source_reader, {"file": "a.parquet"})
    assert row == {"u": 1, "ns": moment, "d": "x"}
    assert (
        source_reader.schema({"file": "a.parquet"}).simpleString()
        == "struct<value:struct<u:bigint,ns:timestamp,d:string>>"
    )


def test_text_in_csv_stays_as_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("zip,count,at\n00501,1,2024-01-02\n,2,2024-01-03\n")
    source_reader = reader(tmp_path, "csv", schema="zip string, count int, at string")
    ((first, second),) = rows(source_reader, {"file": "a.csv"})
    assert first == {"zip": "00501", "count": 1, "at": "2024-01-02"}
    assert second["zip"] == ""


def test_times_of_parquet_that_are_finer_than_sparks(tmp_path: Path) -> None:
    nanoseconds = pyarrow.array([1_700_000_000_123_456_789], pyarrow.int64()).cast(pyarrow.timestamp("ns", tz="UTC"))
    pyarrow.parquet.write_table(pyarrow.table({"at": nanoseconds}), tmp_path / "a.parquet")
    ((row,),) = rows(reader(tmp_path, "parquet"), {"file": "a.parquet"})
    assert row == {"at": datetime.datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=datetime.UTC)}


def _crash(*_: object, **__: object) -> None:
    raise KeyboardInterrupt
