"""Jars by pinned checksum: a downloaded jar is used only if its checksum matches."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from ottla.spark.jvm_connector import ConnectorUnavailableError, PinnedJar, fetch_jars, pinned_jars


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One jar in Maven's layout, reached by address."""
    root = tmp_path / "repository"
    place = root / "org/example/thing/1.0/thing-1.0.jar"
    place.parent.mkdir(parents=True)
    place.write_bytes(b"a jar")
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setenv("OTTLA_MAVEN_REPOSITORY", root.as_uri())
    return root


def pin(content: bytes = b"a jar", path: str = "org/example/thing/1.0/thing-1.0.jar") -> PinnedJar:
    return PinnedJar(hashlib.sha256(content).hexdigest(), path)


def test_five_jars_are_pinned() -> None:
    jars = pinned_jars()
    assert len(jars) == 5
    assert all(len(jar.sha256) == 64 for jar in jars)
    assert ("org.apache.kafka", "kafka-clients", "3.9.2") in [jar.coordinates for jar in jars]


def test_a_jar_is_fetched_once(repository: Path, tmp_path: Path) -> None:
    jars = fetch_jars([pin()], tmp_path / "cache")
    assert [path.read_bytes() for path in jars] == [b"a jar"]
    (repository / "org/example/thing/1.0/thing-1.0.jar").unlink()
    assert fetch_jars([pin()], tmp_path / "cache") == jars


def test_a_jar_that_differs_is_not_used(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(ConnectorUnavailableError, match="differs from its pinned checksum"):
        fetch_jars([pin(b"another jar")], tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_jar_that_is_not_there_is_named(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(ConnectorUnavailableError, match=r"thing-2\.jar could not be fetched"):
        fetch_jars([pin(path="org/example/thing/2/thing-2.jar")], tmp_path / "cache")


def test_without_maven_and_address_it_says_what_would_help(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.delenv("OTTLA_MAVEN_REPOSITORY", raising=False)
    with pytest.raises(ConnectorUnavailableError, match="install Maven, or set OTTLA_MAVEN_REPOSITORY"):
        fetch_jars([pin()], tmp_path / "cache")
