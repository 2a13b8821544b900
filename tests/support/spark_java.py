"""JVM options for Spark processes that live for minutes: no optimising compiler, which takes half of the start."""

from __future__ import annotations

from ottla.spark.sessions import JAVA_OPTIONS

__all__ = ["SESSION_SETTINGS", "SHORT_LIVED"]

SHORT_LIVED = {"spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} -XX:TieredStopAtLevel=1"}

# The session outlives the clusters of tests: cached producers of Spark's own connector would seek them for minutes.
SESSION_SETTINGS = {
    **SHORT_LIVED,
    "spark.kafka.producer.cache.timeout": "5s",
    "spark.kafka.producer.cache.evictorThreadRunInterval": "2s",
}
