"""What a batch of files has brought to the disk before anything is said of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ottla.connect.api import Batch, Task
from ottla.connect.plugins.connectors import directory_sink, durable
from ottla.connect.plugins.connectors.directory_sink import DirectorySinkConnector, DirectoryWriter


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that were synced, in order."""
    found: list[str] = []
    sync = os.fsync

    def fsync(file: int) -> None:
        found.append(os.readlink(f"/proc/self/fd/{file}"))
        sync(file)

    monkeypatch.setattr(os, "fsync", fsync)
    return found


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
