"""Which files of a batch are synced before the batch is reported."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla.connect.api import Batch, Task
from ottla.connect.plugins.connectors import directory_sink, durable
from ottla.connect.plugins.connectors.directory_sink import DirectorySinkConnector, DirectoryWriter


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were synced, in order."""
    paths: list[str] = []
    sync = os.fsync

    def fsync(file: int) -> None:
        paths.append(os.readlink(f"/proc/self/fd/{file}"))
        sync(file)

    monkeypatch.setattr(os, "fsync", fsync)
    return paths


def stage(_self: DirectoryWriter, _frame: object, staging: Path) -> None:
    place = staging / "time=2026" / "land=se"
    place.mkdir(parents=True)
    (place / "part-00000.json").write_text("{}")


def test_files_and_their_directories_are_on_disk_before_the_manifest_and_the_end(
    tmp_path: Path, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    at_manifest: list[set[str]] = []

    def create_durably(path: Path, text: str) -> None:
        at_manifest.append(set(synced))
        durable.create_durably(path, text)

    monkeypatch.setattr(DirectoryWriter, "_stage", stage)
    monkeypatch.setattr(directory_sink, "create_durably", create_durably)
    settings = DirectorySinkConnector.config_definitions().parse({"path": str(tmp_path), "format": "json"})
    nothing: Any = None
    batch = Batch(id=0, epoch="e", ranges=(), task=Task(connector="c", number=0, config={}))
    DirectoryWriter(settings).write(nothing, batch)

    (before,) = at_manifest
    (staging,) = {path for path in before if path.endswith(".staging")}
    assert {f"{staging}/time=2026", f"{staging}/time=2026/land=se"} <= before
    assert f"{staging}/time=2026/land=se/part-00000.json" in before
    (written,) = tmp_path.rglob("time=*/land=se/c-0-*.json")
    assert {str(parent) for parent in written.parents if parent.is_relative_to(tmp_path)} <= set(synced)


def test_directories_of_columns_with_an_underscore_are_partitions_and_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`partition.by=_topic`, with the topic as a column: all of a batch lies under such directories."""

    def stage(_self: DirectoryWriter, _frame: object, staging: Path) -> None:
        for place in ("_topic=orders", "_topic=orders/_temporary", "_temporary/0"):
            (staging / place).mkdir(parents=True, exist_ok=True)
            (staging / place / "part-00000.json").write_text("{}")
        (staging / "_SUCCESS").write_text("")

    monkeypatch.setattr(DirectoryWriter, "_stage", stage)
    settings = DirectorySinkConnector.config_definitions().parse({"path": str(tmp_path), "format": "json"})
    nothing: Any = None
    batch = Batch(id=0, epoch="e", ranges=(), task=Task(connector="c", number=0, config={}))
    DirectoryWriter(settings).write(nothing, batch)
    written = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()]
    assert [str(path) for path in written if path.parts[0] != "_ottla"] == [
        f"_topic=orders/{batch.identity}-00000.json"
    ]


@pytest.mark.parametrize(
    ("epoch", "number", "age_seconds", "is_kept"),
    [
        ("e", 6, 60, False),
        ("e", 7, 60, False),
        ("e", 8, 60, True),
        ("e", 8, -60, True),
        ("other", 8, 60, False),
        ("other", 0, -60, True),
    ],
)
def test_staged_files_of_a_later_batch_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, epoch: str, number: int, age_seconds: int, is_kept: bool
) -> None:
    """A fenced worker ends its batch while the new worker of the task writes the next batch."""
    batch = Batch(id=7, epoch="e", ranges=(), task=Task(connector="c", number=0, config={}))
    other = replace(batch, epoch=epoch, id=number)
    staging = tmp_path / "_ottla" / f"{other.identity}.0123456789ab.staging"
    staging.mkdir(parents=True)
    manifest_seconds = 1_700_000_000

    def create_durably(path: Path, text: str) -> None:
        durable.create_durably(path, text)
        os.utime(path, (manifest_seconds, manifest_seconds))

    os.utime(staging, (manifest_seconds - age_seconds, manifest_seconds - age_seconds))
    monkeypatch.setattr(DirectoryWriter, "_stage", stage)
    monkeypatch.setattr(directory_sink, "create_durably", create_durably)
    settings = DirectorySinkConnector.config_definitions().parse({"path": str(tmp_path), "format": "json"})
    nothing: Any = None
    DirectoryWriter(settings).write(nothing, batch)
    assert list(tmp_path.rglob("*.staging")) == ([staging] if is_kept else [])


def test_a_manifest_that_another_worker_removes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A link without a target has a name, and no time."""
    batch = Batch(id=7, epoch="e", ranges=(), task=Task(connector="c", number=0, config={}))
    control = tmp_path / "_ottla"
    control.mkdir()
    for number in (4, 5):
        (control / f"{replace(batch, id=number).identity}.json").symlink_to("removed")
    monkeypatch.setattr(DirectoryWriter, "_stage", stage)
    settings = DirectorySinkConnector.config_definitions().parse({"path": str(tmp_path), "format": "json"})
    nothing: Any = None
    DirectoryWriter(settings).write(nothing, batch)
    assert [path.name for path in tmp_path.rglob("c-0-*.json") if path.is_file() and path.parent == control] == [
        f"{batch.identity}.json"
    ]
