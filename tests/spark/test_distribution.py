"""Spark runs from the wheel, in an environment with nothing else in it, and says no more than it must."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import ottla.testing
from tests.support.distribution import build_wheel, new_environment

pytestmark = pytest.mark.slow

PROGRAM = """
import json, os, sys, time
import ottla.spark
from ottla.client.columns.decode import _native as decode
from ottla.client.columns.encode import _native as encode
from pyspark.sql.functions import udf

bootstrap, scratch = sys.argv[1:]
spark = ottla.spark.session("wheel")
rows = spark.createDataFrame([(b"one",), (b"two",)], "value binary")
rows.write.format("ottla").option("bootstrap.servers", bootstrap).option("topic", "t").mode("append").save()
topic = {"bootstrap.servers": bootstrap, "subscribe": "t", "startingOffsets": "earliest"}
read = spark.read.format("ottla").options(**topic).load()
values = sorted(row.value.decode() for row in read.select("value").collect())

try:
    spark.read.format("ottla").option("subscribe", "t").load().collect()
except Exception as error:
    sentence = str(error)

def slow(value):
    open(scratch + "/begun", "w").close()
    time.sleep(2)
    return value

stream = spark.readStream.format("ottla").options(**topic).load().select(udf(slow)("value").alias("value"))
writer = stream.writeStream.format("ottla").option("bootstrap.servers", bootstrap).option("topic", "copies")
query = writer.option("checkpointLocation", scratch + "/checkpoint").start()
while not os.path.exists(scratch + "/begun"):
    time.sleep(0.01)
query.stop()
spark.stop()
files = [ottla.spark.__file__, decode.__file__, encode.__file__]
print(json.dumps({"files": files, "values": values, "sentence": sentence}))
"""


def test_spark_runs_from_the_wheel(tmp_path: Path) -> None:
    environment = new_environment(tmp_path / "environment", build_wheel(tmp_path / "dist"), extras=("spark",))
    with ottla.testing.cluster() as cluster:
        output, log = environment.run_both("python", "-c", PROGRAM, cluster.bootstrap, str(tmp_path))
    answer = json.loads(output.splitlines()[-1])
    assert answer["values"] == ["one", "two"]
    assert all(path.startswith(str(environment.site)) for path in answer["files"])
    # A mistake is explained in a sentence, and a query that is stopped in the middle of a batch is no mistake.
    assert "Option 'bootstrap.servers' is missing" in answer["sentence"]
    assert "Traceback" not in answer["sentence"]
    assert re.findall(r"^.*(?:Traceback|WARN|ERROR|incubator|\tat ).*$", log, re.MULTILINE) == []
