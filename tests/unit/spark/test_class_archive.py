"""The archive of classes belongs to one Java and one environment."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from ottla.spark import class_archive
from ottla.spark.class_archive import archive_options, archive_path, make_for_later


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


@pytest.fixture
def started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that the process in the background writes instead of an archive."""
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.delenv(class_archive.SWITCH)
    monkeypatch.setattr(class_archive, "FREE_BYTES_MIN", 0)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    path = tmp_path / "started"
    monkeypatch.setattr(class_archive, "_COMMAND", ("/bin/sh", "-c", f"mkfifo {path}; echo yes > {path}"))
    return path


def test_the_first_session_has_the_archive_made_for_later_ones(started: Path, tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.touch()
    make_for_later(str(java))
    while not started.exists():
        time.sleep(0.01)
    assert started.read_text() == "yes\n"


@pytest.mark.parametrize("state", ["made", "failed", "off", "no space", "one core", "no Java"])
def test_it_is_not_made_where_it_is_there_or_cannot_be(
    state: str, started: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "java"
    monkeypatch.setattr("subprocess.run", lambda *_, **__: pytest.fail("a process was started"))
    if state != "no Java":
        java.touch()
        archive_path(str(java)).parent.mkdir()
    if state == "made":
        archive_path(str(java)).touch()
    elif state == "failed":
        archive_path(str(java)).with_suffix(".failed").touch()
    elif state == "off":
        monkeypatch.setenv(class_archive.SWITCH, "off")
    elif state == "no space":
        monkeypatch.setattr(class_archive, "FREE_BYTES_MIN", 1 << 80)
    elif state == "one core":
        monkeypatch.setattr("os.cpu_count", lambda: 1)
    make_for_later(str(java))
