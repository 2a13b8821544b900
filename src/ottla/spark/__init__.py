"""Apache Spark on Ottla and on any other Kafka: sessions, and the data source `ottla`. See README.md."""

from __future__ import annotations

from ottla.spark.sessions import register, session, start

__all__ = ["register", "session", "start"]
