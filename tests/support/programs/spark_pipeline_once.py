"""Copies the records of a topic to another topic once, on the environment's Spark, and counts the copied records.

spark_pipeline_once.py BOOTSTRAP SOURCE TARGET CHECKPOINT
"""

from __future__ import annotations

import sys

import ottla.spark

bootstrap, source, target, checkpoint = sys.argv[1:]
spark = ottla.spark.session("once", settings={"spark.executor.memory": "1g", "spark.cores.max": "2"})
options = {"bootstrap.servers": bootstrap}
frame = spark.readStream.format("ottla").options(**options, subscribe=source, startingOffsets="earliest")
writer = (
    frame.option("maxOffsetsPerTrigger", "700")
    .load()
    .select("key", "value")
    .writeStream.format("ottla")
    .options(**options, topic=target, checkpointLocation=checkpoint)
    .queryName("once")
)
ottla.spark.start(writer, availableNow=True).awaitTermination(300)
arrived = spark.read.format("ottla").options(**options, subscribe=target).load()
total, different = arrived.selectExpr("count(*)", "count(distinct value)").collect()[0]
print(f"{total} records, {different} different")
spark.stop()
