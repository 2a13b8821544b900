"""How Spark's Java runs where it lives for minutes: without the better compiler, which takes half of the start."""

from __future__ import annotations

from ottla.spark.sessions import JAVA_OPTIONS

__all__ = ["SHORT_LIVED"]

SHORT_LIVED = {"spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} -XX:TieredStopAtLevel=1"}
