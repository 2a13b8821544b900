"""Kafka's jars, fetched once by pinned checksum into a cache.

A *jar set* is a directory with two files: `pom.xml` lists the dependencies, and `jars.lock` lists every resolved jar
as `sha256  repository/path/of.jar`. The cache has a directory per lock file, named after the digest of its text, so a
changed lock never uses old jars.

This module has no repository address. Maven is configured with its repository (or a company's mirror of it), so `mvn`
fetches the jars if it is installed; otherwise `OTTLA_MAVEN_REPOSITORY` may have the base address of any repository in
Maven's layout. Either way every jar is checked against the lock before use.

`python -m tests.support.jars fetch SET...` fills the cache, `... lock SET...` rewrites the locks after a pom changed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import NamedTuple

__all__ = [
    "CLIENTS_4_4",
    "COMPAT",
    "STREAMS",
    "TOOLS",
    "JarsUnavailableError",
    "class_path",
    "fetch",
    "read_lock",
    "write_lock",
]

TESTS = Path(__file__).resolve().parent.parent
TOOLS = TESTS / "java"
CLIENTS_4_4 = TOOLS / "clients-4.4"
COMPAT = TESTS / "kafka"
STREAMS = TESTS / "streams" / "oracle"


class JarsUnavailableError(Exception):
    """The jars are not in the cache and cannot be fetched; the message has the remedy."""


class LockedJar(NamedTuple):
    sha256: str
    repository_path: str

    @property
    def name(self) -> str:
        return self.repository_path.rsplit("/", 1)[1]


def class_path(jar_set: Path) -> str:
    """The set as a Java class path; fetches the jars if they are not in the cache."""
    return f"{fetch(jar_set)}/*"


def fetch(jar_set: Path) -> Path:
    """The directory with exactly the verified jars of the set's lock."""
    lock_text = (jar_set / "jars.lock").read_bytes()
    target = cache_directory() / "jars" / hashlib.sha256(lock_text).hexdigest()[:16]
    if target.is_dir():
        return target
    jars = read_lock(jar_set)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="fetching-") as scratch:
        arrived = Path(scratch) / "arrived"
        fetch_by_maven(jar_set, arrived) if shutil.which("mvn") else fetch_by_address(jars, arrived)
        complete = Path(scratch) / "complete"
        complete.mkdir()
        for jar in jars:
            source = arrived / jar.repository_path
            verify(source, jar)
            source.rename(complete / jar.name)
        try:
            complete.rename(target)
        except OSError:
            # Another process was faster; it has verified its jars by the same rules.
            assert target.is_dir()
    return target


def cache_directory() -> Path:
    """`OTTLA_CACHE`, else `~/.cache/ottla`."""
    return Path(os.environ.get("OTTLA_CACHE") or Path.home() / ".cache" / "ottla")


def read_lock(jar_set: Path) -> list[LockedJar]:
    lines = (jar_set / "jars.lock").read_text().splitlines()
    return [LockedJar(*line.split()) for line in lines if line and not line.startswith("#")]


def write_lock(jar_set: Path) -> int:
    """Resolves the pom with Maven and writes the lock; returns the number of jars."""
    with tempfile.TemporaryDirectory() as scratch:
        arrived = Path(scratch)
        fetch_by_maven(jar_set, arrived)
        paths = sorted(path for path in arrived.rglob("*.jar"))
        lines = [f"{digest(path)}  {path.relative_to(arrived).as_posix()}\n" for path in paths]
    (jar_set / "jars.lock").write_text("".join(lines))
    return len(lines)


def fetch_by_maven(jar_set: Path, arrived: Path) -> None:
    command = ["mvn", "-q", "-B", "-f", str(jar_set / "pom.xml"), "dependency:copy-dependencies"]
    command += [f"-DoutputDirectory={arrived}", "-Dmdep.useRepositoryLayout=true"]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    if completed.returncode != 0:
        raise JarsUnavailableError(
            f"mvn could not fetch the jars of {jar_set.name}: {(completed.stdout + completed.stderr)[-400:]}"
        )


def fetch_by_address(jars: list[LockedJar], arrived: Path) -> None:
    base = os.environ.get("OTTLA_MAVEN_REPOSITORY")
    if not base:
        raise JarsUnavailableError("Kafka's jars are not in the cache; install Maven, or set OTTLA_MAVEN_REPOSITORY")
    for jar in jars:
        place = arrived / jar.repository_path
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            with urllib.request.urlopen(f"{base.rstrip('/')}/{jar.repository_path}", timeout=60) as answer:
                place.write_bytes(answer.read())
        except OSError as error:
            raise JarsUnavailableError(f"{jar.name} could not be fetched: {error}") from error


def verify(path: Path, jar: LockedJar) -> None:
    if not path.is_file():
        raise JarsUnavailableError(f"{jar.name} is in the lock but was not delivered")
    if digest(path) != jar.sha256:
        raise JarsUnavailableError(f"{jar.name} differs from the checksum in the lock")


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main(arguments: list[str]) -> None:
    action, *names = arguments
    for jar_set in [Path(name) for name in names] or [TOOLS, CLIENTS_4_4, COMPAT, STREAMS]:
        print(jar_set, fetch(jar_set) if action == "fetch" else f"{write_lock(jar_set)} jars locked")


if __name__ == "__main__":
    main(sys.argv[1:])
