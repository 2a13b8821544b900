"""The small programs between Spark and the Java and Python that it starts."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from ottla.spark.shims import java_shim, python_shim

SHOWS = """#!/bin/sh
printf "%s|" "$PYTHONPATH"
for one do printf "<%s>" "$one"; done
"""


@pytest.fixture
def real(tmp_path: Path) -> str:
    path = tmp_path / "real"
    path.write_text(SHOWS)
    path.chmod(0o755)
    return str(path)


def shown(program: str | Path, *words: str, path: str = "") -> str:
    environment = {**os.environ, "PYTHONPATH": path}
    return subprocess.run([program, *words], capture_output=True, text=True, check=True, env=environment).stdout


def test_java_is_not_asked_for_a_module_that_spark_does_not_need(tmp_path: Path, real: str) -> None:
    home = java_shim(real, directory=str(tmp_path / "shim"))
    words = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "a b", "", "*"]
    assert shown(Path(home) / "bin" / "java", *words) == "|<-Xmx1g><a b><><*>"
    # Made again where it is there already.
    assert java_shim(real, directory=str(tmp_path / "shim")) == home


def test_workers_import_the_installed_pyspark(tmp_path: Path, real: str) -> None:
    shim = python_shim(real, directory=str(tmp_path / "shim"))
    home = "/venv/lib/site-packages/pyspark"
    archives = f"{home}/python/lib/pyspark.zip:{home}/python/lib/py4j-0.10-src.zip:{home}/jars/spark-core.jar"
    words = ["-m", "pyspark.sql.streaming.python_streaming_source_runner", "a b", "*"]
    text = "".join(f"<{word}>" for word in words)
    assert shown(shim, *words, path=f"{archives}:/my code/*:/lib.zip") == f"/my code/*:/lib.zip|{text}"
    assert shown(shim, *words, path=archives) == f"|{text}"


def test_all_workers_are_forked_by_our_daemon(tmp_path: Path, real: str) -> None:
    shim = python_shim(real, directory=str(tmp_path / "shim"))
    module = "pyspark.sql.worker.plan_data_source_read"
    assert shown(shim, "-m", "pyspark.daemon", module) == f"|<-m><ottla.spark.daemon><{module}>"
    assert shown(shim, "-m", "ottla.spark.daemon", "pyspark.worker") == "|<-m><ottla.spark.daemon><pyspark.worker>"
