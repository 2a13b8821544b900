"""Spark's own Kafka connector, for existing jobs and for real-time mode, which Python sources do not have.

    spark = ottla.spark.session("orders", jvm_connector=True)
    spark.readStream.format("kafka").option("kafka.bootstrap.servers", "localhost:9092")...

It is not part of pyspark: five jars, pinned in `jvm_connector.txt` by checksum, fetched once into a cache. For Spark
4.3 the newest published jars are of 4.2 and 4.1; the tests run with this set.

`mvn` fetches the jars if it is installed, because it knows the repository or mirror to use. Without it,
`OTTLA_MAVEN_REPOSITORY` is the base address of a repository in Maven's layout. Every jar is verified before use.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

__all__ = ["ConnectorUnavailableError", "PinnedJar", "connector_jars", "fetch_jars", "pinned_jars"]

_PINS = Path(__file__).with_name("jvm_connector.txt")
_FETCH_SECONDS_MAX = 600


class ConnectorUnavailableError(Exception):
    """The jars are not in the cache and cannot be fetched."""


class PinnedJar(NamedTuple):
    sha256: str
    # group/as/path/artifact/version/artifact-version.jar
    repository_path: str

    @property
    def file_name(self) -> str:
        return self.repository_path.rpartition("/")[2]

    @property
    def coordinates(self) -> tuple[str, str, str]:
        """Group, artifact and version."""
        *group, artifact, version, _ = self.repository_path.split("/")
        return ".".join(group), artifact, version


def pinned_jars(pins: Path = _PINS) -> list[PinnedJar]:
    return [PinnedJar(*line.split()) for line in pins.read_text().splitlines() if line]


def connector_jars() -> list[Path]:
    """The five jars, from the cache or fetched. Raises ConnectorUnavailableError."""
    cache = Path(os.environ.get("OTTLA_CACHE") or Path.home() / ".cache" / "ottla")
    return fetch_jars(pinned_jars(), cache / "jars")


def fetch_jars(jars: Sequence[PinnedJar], cache: Path) -> list[Path]:
    """Fetches jars into a directory named after their checksums, so that new pins never use old jars."""
    digest = hashlib.sha256("\n".join(jar.sha256 for jar in jars).encode()).hexdigest()[:16]
    target = cache / digest
    if not target.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache, prefix="fetching-") as scratch:
            arrived, complete = Path(scratch) / "arrived", Path(scratch) / "complete"
            complete.mkdir()
            _fetch_by_maven(jars, arrived) if shutil.which("mvn") else _fetch_by_address(jars, arrived)
            for jar in jars:
                _verified(arrived / jar.repository_path, jar).rename(complete / jar.file_name)
            try:
                complete.rename(target)
            except OSError:
                # Another process was faster, and has verified its jars in the same way.
                assert target.is_dir()
    return [target / jar.file_name for jar in jars]


def _fetch_by_maven(jars: Sequence[PinnedJar], arrived: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        project = Path(scratch) / "pom.xml"
        project.write_text(_project(jars))
        command = ["mvn", "-q", "-B", "-f", str(project), "dependency:copy-dependencies"]
        command += [f"-DoutputDirectory={arrived}", "-Dmdep.useRepositoryLayout=true"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_FETCH_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            raise ConnectorUnavailableError(f"mvn did not fetch the jars in {_FETCH_SECONDS_MAX} seconds.") from None
    if done.returncode != 0:
        raise ConnectorUnavailableError(f"mvn could not fetch the jars: {(done.stdout + done.stderr)[-400:]}")


def _project(jars: Sequence[PinnedJar]) -> str:
    """A Maven project that depends on exactly these jars, without their dependencies: Spark has those."""
    dependencies = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
        "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions></dependency>"
        for group, artifact, version in (jar.coordinates for jar in jars)
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>ottla</groupId>'
        f"<artifactId>jars</artifactId><version>1</version><dependencies>{dependencies}</dependencies></project>"
    )


def _fetch_by_address(jars: Sequence[PinnedJar], arrived: Path) -> None:
    base = os.environ.get("OTTLA_MAVEN_REPOSITORY")
    if not base:
        raise ConnectorUnavailableError(
            "Spark's Kafka connector is not in the cache; install Maven, or set OTTLA_MAVEN_REPOSITORY."
        )
    for jar in jars:
        place = arrived / jar.repository_path
        place.parent.mkdir(parents=True, exist_ok=True)
        try:
            with urllib.request.urlopen(f"{base.rstrip('/')}/{jar.repository_path}", timeout=60) as answer:
                place.write_bytes(answer.read())
        except OSError as error:
            raise ConnectorUnavailableError(f"{jar.file_name} could not be fetched: {error}") from error


def _verified(path: Path, jar: PinnedJar) -> Path:
    if not path.is_file():
        raise ConnectorUnavailableError(f"{jar.file_name} was requested but mvn did not fetch it.")
    if hashlib.sha256(path.read_bytes()).hexdigest() != jar.sha256:
        raise ConnectorUnavailableError(f"{jar.file_name} differs from its pinned checksum.")
    return path
