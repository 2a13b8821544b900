"""The archive of classes belongs to one Java and one environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.spark.class_archive import archive_options, archive_path


def test_only_an_archive_that_is_there_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    java = tmp_path / "java"
    assert archive_options(str(java)) == ""
    java.touch()
    assert archive_options(str(java)) == ""
    path = archive_path(str(java))
    assert path.is_relative_to(tmp_path)
    path.parent.mkdir()
    path.touch()
    assert f"-XX:SharedArchiveFile={path} " in archive_options(str(java))


def test_another_java_has_another_archive(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.touch()
    second.touch()
    assert archive_path(str(first)) != archive_path(str(second))
