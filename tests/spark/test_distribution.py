"""Spark runs from the wheel, in an environment with nothing else in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ottla.testing
from tests.support.distribution import build_wheel, new_environment

pytestmark = pytest.mark.spark

PROGRAM = """
import json, sys
import ottla.spark
from ottla.spark.decode import _native as decode
from ottla.spark.encode import _native as encode

spark = ottla.spark.session("wheel")
rows = spark.createDataFrame([(b"one",), (b"two",)], "value binary")
rows.write.format("ottla").option("bootstrap.servers", sys.argv[1]).option("topic", "t").mode("append").save()
read = spark.read.format("ottla").option("bootstrap.servers", sys.argv[1]).option("subscribe", "t").load()
values = sorted(row.value.decode() for row in read.select("value").collect())
spark.stop()
print(json.dumps({"from": ottla.spark.__file__, "values": values, "compiled": [decode.__file__, encode.__file__]}))
"""


def test_spark_runs_from_the_wheel(tmp_path: Path) -> None:
    environment = new_environment(tmp_path / "environment", build_wheel(tmp_path / "dist"), extras=("spark",))
    with ottla.testing.cluster() as cluster:
        answer = json.loads(environment.run("python", "-c", PROGRAM, cluster.bootstrap).splitlines()[-1])
    assert answer["values"] == ["one", "two"]
    assert all(path.startswith(str(environment.site)) for path in [answer["from"], *answer["compiled"]])
