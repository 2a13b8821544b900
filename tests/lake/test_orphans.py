"""Files that no snapshot has, in stores whose file systems list other paths than the table has."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyarrow import fs

from ottla.lake.maintenance import remove_orphans


@pytest.mark.parametrize(
    ("location", "path"),
    [
        ("abfss://container@account.dfs.core.windows.net/lake/orders", "container/lake/orders"),
        ("hdfs://namenode:8020/lake/orders", "/lake/orders"),
        ("s3://bucket/lake/orders", "bucket/lake/orders"),
    ],
)
def test_only_files_without_a_snapshot_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, location: str, path: str
) -> None:
    """The paths are those that pyarrow has for the location."""
    folder = tmp_path / path.lstrip("/")
    names = ("data/day=1/live.parquet", "metadata/live.avro", "data/day=1/orphan.parquet")
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"")

    class FileSystem:
        @staticmethod
        def from_uri(uri: str) -> tuple[fs.FileSystem, str]:
            assert uri == location
            return fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()), path.lstrip("/")

    iceberg = SimpleNamespace(location=lambda: location, snapshots=list)
    table: Any = SimpleNamespace(refresh=lambda: None, table=iceberg)
    monkeypatch.setattr("pyarrow.fs.FileSystem", FileSystem)
    monkeypatch.setattr("ottla.lake.maintenance._files", lambda *_: {f"{location}/{name}" for name in names[:2]})
    assert remove_orphans(table, older_than_ms=-60_000) == 1
    assert [(folder / name).exists() for name in names] == [True, True, False]
