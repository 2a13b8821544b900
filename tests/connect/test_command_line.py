"""`ottla connect` as users start it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ottla.cli.commands.connect import connect
from ottla.cli.failures import Failure
from ottla.testing import Cluster, cluster

OTTLA = [sys.executable, "-m", "ottla.cli.main"]
WAIT_SECONDS = 240


@pytest.fixture(scope="module")
def broker() -> Iterator[Cluster]:
    with cluster() as running:
        yield running


def run(*arguments: str) -> Result:
    return CliRunner().invoke(connect, arguments)


def test_new_connectors_pass_their_own_tests(tmp_path: Path) -> None:
    for kind in ("source", "sink"):
        done = run("new", f"Weather-{kind}", "--kind", kind, "--directory", str(tmp_path))
        assert done.exit_code == 0, done.output
        directory = tmp_path / f"weather_{kind}"
        assert sorted(done.output.split()) == sorted(str(path) for path in directory.rglob("*") if path.is_file())
    tested = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:ottla", "."],
        cwd=tmp_path, text=True, capture_output=True, timeout=500,
    )  # fmt: skip
    assert "4 passed" in tested.stdout, tested.stdout
    path = ",".join(str(tmp_path / f"weather_{kind}" / "plugins") for kind in ("source", "sink"))
    listed = run("plugins", "--plugin-path", path).output
    for kind in ("source", "sink"):
        name = rf"weather_{kind}\.connector\.Weather{kind.capitalize()}"
        assert re.search(rf"^{kind} +0\.1\.0 +{name}$", listed, re.MULTILINE)
    again = run("new", "Weather-source", "--directory", str(tmp_path))
    assert isinstance(again.exception, Failure)
    assert "there already" in str(again.exception)


@pytest.mark.parametrize(
    ("arguments", "about"),
    [
        (("new", "1-2-3"), "Python module"),
        (("distributed", "FILE"), "group.id"),
        (("standalone", "FILE", "--override", "listeners"), "="),
        (("standalone", "FILE", "--override", "listeners=ftp://here"), "offset.storage.file.filename"),
    ],
)
def test_what_makes_no_sense_is_said_in_a_sentence(tmp_path: Path, arguments: tuple[str, ...], about: str) -> None:
    file = tmp_path / "worker.properties"
    file.write_text("key.converter=StringConverter\nvalue.converter=StringConverter\n")
    done = run(*(str(file) if argument == "FILE" else argument for argument in arguments))
    assert isinstance(done.exception, Failure)
    assert about in str(done.exception)


@pytest.mark.slow
def test_standalone_with_a_connector_in_a_file(broker: Cluster, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "worker.properties").write_text(
        f"bootstrap.servers={broker.bootstrap}\n"
        "key.converter=org.apache.kafka.connect.storage.StringConverter\n"
        "value.converter=org.apache.kafka.connect.storage.StringConverter\n"
        f"offset.storage.file.filename={tmp_path}/offsets\n"
        "listeners=http://127.0.0.1:0\ntrigger.interval.ms=100\nspark.master=local[2,4]\n"
    )
    (tmp_path / "in.properties").write_text(
        f"name=in\nconnector.class=FileStreamSource\nfile={tmp_path}/in.txt\ntopic=lines\n"
    )
    (tmp_path / "out.json").write_text(
        json.dumps(
            {
                "name": "out",
                "config": {"connector.class": "FileStreamSink", "file": f"{tmp_path}/out.txt", "topics": "lines"},
            }
        )
    )
    command = [*OTTLA, "connect", "standalone", "worker.properties", "in.properties", "out.json"]
    log = tmp_path / "log"
    with log.open("w") as output:
        worker = subprocess.Popen(command, cwd=tmp_path, stdout=output, stderr=subprocess.STDOUT)
    try:
        _wait_for(worker, log, lambda: (tmp_path / "out.txt").exists() and _lines(tmp_path) == ["one", "two", "three"])
        match = re.search(r"Connect answers at (\S+)", log.read_text())
        assert match is not None
        with urllib.request.urlopen(match.group(1) + "connectors", timeout=30) as answer:
            assert json.load(answer) == ["in", "out"]
        with (tmp_path / "in.txt").open("a") as file:
            file.write("four\n")
        _wait_for(worker, log, lambda: _lines(tmp_path) == ["one", "two", "three", "four"])
        _wait_for(worker, log, lambda: '"position":19' in (tmp_path / "offsets").read_text().replace(" ", ""))
    finally:
        worker.terminate()
        assert worker.wait(60) == 0


def _lines(directory: Path) -> list[str]:
    return (directory / "out.txt").read_text().splitlines()


def _wait_for(worker: subprocess.Popen[bytes], log: Path, holds: object) -> None:
    assert callable(holds)
    end = time.monotonic() + WAIT_SECONDS
    while not holds():
        assert worker.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.1)
