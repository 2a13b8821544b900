"""Apache Spark on Ottla and on any other Kafka: sessions, and the data source `ottla`. See README.md."""

from __future__ import annotations

from importlib.util import find_spec

from ottla.spark.sessions import register, session, start

__all__ = ["register", "session", "start"]

# Sessions import PySpark on first use. A program that lacks it should fail here, not when its pipeline starts.
_missing = [name for name in ("pyspark", "pyarrow") if find_spec(name) is None]
if _missing:
    raise ImportError(
        f"ottla.spark needs {' and '.join(_missing)}: run `pip install '.[spark]'` in a checkout of Ottla."
    )
