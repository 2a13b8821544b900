"""Jars are used only when every byte is the one that was pinned."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.support import jars

JAR = b"not really a jar"
REPOSITORY_PATH = "org/example/thing/1.0/thing-1.0.jar"


@pytest.fixture
def jar_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A set with one jar, a repository that has it, an empty cache, and no Maven."""
    place = tmp_path / "repository" / REPOSITORY_PATH
    place.parent.mkdir(parents=True)
    place.write_bytes(JAR)
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "jars.lock").write_text(f"{hashlib.sha256(JAR).hexdigest()}  {REPOSITORY_PATH}\n")
    monkeypatch.setenv("OTTLA_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OTTLA_MAVEN_REPOSITORY", (tmp_path / "repository").as_uri())
    monkeypatch.setattr("tests.support.jars.shutil.which", lambda _: None)
    return tmp_path / "set"


def test_a_jar_is_fetched_once_and_then_kept(jar_set: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = jars.fetch(jar_set)
    assert (first / "thing-1.0.jar").read_bytes() == JAR
    monkeypatch.delenv("OTTLA_MAVEN_REPOSITORY")
    assert jars.fetch(jar_set) == first


def test_another_byte_is_refused_and_nothing_is_kept(jar_set: Path, tmp_path: Path) -> None:
    (tmp_path / "repository" / REPOSITORY_PATH).write_bytes(JAR + b"!")
    with pytest.raises(jars.JarsUnavailableError, match=r"thing-1\.0\.jar differs"):
        jars.fetch(jar_set)
    assert list((tmp_path / "cache" / "jars").iterdir()) == []


def test_a_changed_lock_never_meets_old_jars(jar_set: Path) -> None:
    before = jars.fetch(jar_set)
    with (jar_set / "jars.lock").open("a") as lock:
        lock.write("# a comment changes the text, and so the place\n")
    assert jars.fetch(jar_set) != before


def test_without_maven_and_repository_the_reason_says_what_helps(
    jar_set: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OTTLA_MAVEN_REPOSITORY")
    with pytest.raises(jars.JarsUnavailableError, match="install Maven"):
        jars.fetch(jar_set)


@pytest.mark.parametrize("jar_set", [jars.TOOLS, jars.COMPAT])
def test_the_locks_are_well_formed(jar_set: Path) -> None:
    locked = jars.read_lock(jar_set)
    assert len(locked) > 90
    assert all(len(jar.sha256) == 64 and jar.name.endswith(".jar") for jar in locked)
    assert len({jar.name for jar in locked}) == len(locked)
