"""A source of a directory with many files that were read before its task started."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ottla.connect.api import ReadLimit, SourceOffset
from ottla.connect.plugins.connectors import directory_source
from ottla.connect.plugins.connectors.directory_source import DirectoryReader, DirectorySourceConnector


def test_new_files_do_not_wait_for_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_source, "FILES_MAX", 2)
    names = [f"{number}.csv" for number in range(20)]
    for name in names:
        path = tmp_path / name
        path.write_text("a\n1\n")
        os.utime(path, (1, 1))
    settings = {"path": str(tmp_path), "topic": "t", "format": "csv"}
    reader = DirectoryReader(DirectorySourceConnector.config_definitions().parse(settings))
    new = sorted(names)[-3:]
    stored: dict[str, SourceOffset] = {name: {"row": 1, "done": True} for name in names if name not in new}
    read: list[list[str]] = []
    for _ in range(3):
        # As a task plans a batch.
        batch = []
        for partition in reader.partitions():
            name = str(partition["file"])
            start = stored.get(name)
            end = reader.latest(partition, start, ReadLimit())
            if end is not None and end != start:
                batch.append(name)
                stored[name] = end
                reader.committed(partition, end)
        read.append(batch)
    assert read == [new[:2], new[2:], []]
