"""Spark sessions for pipelines: small, quiet, and knowing the data source `ottla`.

    spark = ottla.spark.session("orders")
    spark.readStream.format("ottla").option("bootstrap.servers", "localhost:9092").option("subscribe", "orders").load()

Without further word Spark runs on this machine with all cores and repeats a failed task, as a cluster would
(`local[*,4]`); any master's address, or a Spark Connect server (`sc://host`), goes in its place. The Python of the
workers is this one. A query without a trigger looks for new records five times a second instead of a hundred times.

Python workers start slowly on a busy machine, and Spark gives up on them after ten seconds: `start` starts a query
again when that is why it failed.
"""

from __future__ import annotations

import logging
import os
import sys
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.spark.java import java_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamWriter
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["JAVA_OPTIONS", "LOCAL_MASTER", "register", "session", "start"]

log = logging.getLogger(__name__)

LOCAL_MASTER = "local[*,4]"
"""All cores, and four attempts for each task: plain `local[*]` fails a query at the first lost worker."""

_LOGGING = Path(__file__).with_name("log4j2.properties")
JAVA_OPTIONS = f"-Dlog4j2.configurationFile=file:{_LOGGING} -XX:+UseSerialGC -Xss2m"
"""What the driver's JVM is told; whoever sets `spark.driver.extraJavaOptions` may want to begin with it."""

# What suits a pipeline on one machine; everything may be overridden.
_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    # A pipeline's partitions are its topics'; two hundred tasks for a small aggregation are only overhead.
    "spark.sql.shuffle.partitions": "4",
    # A repeated batch must be cut into the same tasks, or what an exactly-once sink has noted for them means nothing.
    "spark.sql.adaptive.streaming.stateless.enabled": "false",
    # How long a query without a trigger waits when there is nothing new. Spark's own 10 ms cost a fifth of a core.
    "spark.sql.streaming.pollingDelay": "200ms",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # Records between Python and the JVM take the shortest way there is.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.authenticate.socketTimeout": "120s",
    # Workers are forked from a process that has loaded already what they need.
    "spark.python.daemon.module": "ottla.spark.daemon",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
}
# A server has its own: only what a session may still say is sent to it.
_REMOTE_DEFAULTS = {"spark.sql.shuffle.partitions": "4"}

_START_FAILURES = (
    "failed to connect back",
    "Timed out while waiting for the Python worker",
    "Python worker exited unexpectedly",
    "Failed to connect to the python worker",
)


def session(
    app_name: str = "ottla",
    *,
    master: str | None = None,
    remote: str | None = None,
    settings: Mapping[str, str] | None = None,
    jvm_connector: bool = False,
) -> SparkSession:
    """The session of this process, made where there is none; `settings` are Spark's own and win over what is here.

    `master` and `remote` may also come from the environment, as Spark's users know it: SPARK_MASTER, SPARK_REMOTE.
    `jvm_connector` adds Spark's own connector, `format("kafka")`, whose jars are fetched at the first use.
    """
    from pyspark.sql import SparkSession

    remote = remote or (os.environ.get("SPARK_REMOTE") if master is None else None)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    given = dict(settings or {})
    if jvm_connector:
        from ottla.spark.jvm_connector import connector_jars

        given["spark.jars"] = ",".join([*filter(None, [given.get("spark.jars")]), *map(str, connector_jars())])
    builder: Any = SparkSession.builder.appName(app_name)
    if remote is not None and remote.startswith("sc://"):
        builder = builder.remote(remote)
        values = {**_REMOTE_DEFAULTS, **given}
    else:
        home = java_home()
        if home is not None:
            os.environ["JAVA_HOME"] = home
        master = master or os.environ.get("SPARK_MASTER") or LOCAL_MASTER
        builder = builder.remote(remote) if remote is not None else builder.master(master)
        if remote is not None or master.startswith("local"):
            # Right whatever the host's name resolves to; the JVM and all workers inherit it.
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        values = {**_DEFAULTS, **given}
    for key, value in values.items():
        builder = builder.config(key, value)
    with warnings.catch_warnings():
        # A server that was started here got all of them; what it cannot change any more it is told once again.
        warnings.filterwarnings("ignore", message="Failed to set spark", category=UserWarning)
        spark: SparkSession = builder.getOrCreate()
    register(spark)
    return spark


def register(spark: SparkSession) -> None:
    """Makes `format("ottla")` known to a session that somebody else made."""
    from ottla.spark.datasource import OttlaDataSource

    spark.dataSource.register(OttlaDataSource)


def start(writer: DataStreamWriter, *, attempts: int = 5, patience_s: float = 120.0, **trigger: Any) -> StreamingQuery:
    """Starts a query, and again when Spark lost its Python helpers on the way; returns when it is under way.

    `trigger` is what `DataStreamWriter.trigger` takes (`processingTime="1 second"`, `availableNow=True`). What else
    goes wrong is the query's own failure: it is raised here if it comes at once, by `awaitTermination` if later.
    """
    if trigger:
        writer = writer.trigger(**trigger)
    for attempt in range(1, attempts + 1):
        try:
            query = writer.start()
            _wait_for_first_batch(query, patience_s)
        except Exception as error:
            if attempt == attempts or not _is_start_failure(error):
                raise
            log.warning("the query did not start (attempt %d of %d): %s", attempt, attempts, _first_line(error))
        else:
            return query
    raise AssertionError("unreachable")


def _wait_for_first_batch(query: StreamingQuery, patience_s: float) -> None:
    """Until the query has planned once, ended, or failed, which raises."""
    end = time.monotonic() + patience_s
    while query.isActive and query.lastProgress is None and time.monotonic() < end:
        time.sleep(0.05)
    error = query.exception()
    if error is not None:
        raise error


def _is_start_failure(error: Exception) -> bool:
    text = str(error)
    return any(sign in text for sign in _START_FAILURES)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0][:300]
