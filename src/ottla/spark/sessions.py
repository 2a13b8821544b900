"""Spark sessions for pipelines, with small defaults and the data source `ottla`.

    spark = ottla.spark.session("orders")
    spark.readStream.format("ottla").option("bootstrap.servers", "localhost:9092").option("subscribe", "orders").load()

By default Spark runs on this machine with all cores and retries failed tasks, as a cluster does (`local[*,4]`).
`master` may be the address of any master, or of a Spark Connect server (`sc://host`). Workers use the same Python. A
query without a trigger looks for new records five times a second instead of a hundred times.

Python workers start slowly on a busy machine, and Spark gives up after ten seconds: `start` starts the query again
after that failure.
"""

from __future__ import annotations

import logging
import os
import site
import sys
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.spark.java import find_java
from ottla.spark.shims import java_shim, python_shim

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import DataStreamWriter
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["JAVA_OPTIONS", "LOCAL_MASTER", "register", "session", "start"]

log = logging.getLogger(__name__)

LOCAL_MASTER = "local[*,4]"
"""All cores, and four attempts for each task: plain `local[*]` fails a query at the first lost worker."""

_LOGGING = Path(__file__).with_name("log4j2.properties")
# Java's second compiler optimises code after ten times as many calls as by default. Code that only the start of Spark
# runs is not worth its time, which is a quarter of the CPU time of a start; code of running queries gets there soon.
_LATE_OPTIMISATION = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
JAVA_OPTIONS = f"-Dlog4j2.configurationFile=file:{_LOGGING} -XX:+UseSerialGC -Xss2m {_LATE_OPTIMISATION}"
"""Options of the driver's JVM. A `spark.driver.extraJavaOptions` of your own should include them."""

# For the small JVM that only prints the command line of the large one.
_LAUNCHER_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"

# Defaults for a pipeline on one machine; every one can be overridden.
_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "WARN",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    # Two hundred shuffle tasks are overhead for the small aggregations of a pipeline.
    "spark.sql.shuffle.partitions": "4",
    # A repeated batch must have the same tasks, because an exactly-once sink stores markers by task number.
    "spark.sql.adaptive.streaming.stateless.enabled": "false",
    # The poll interval of a query without a trigger. Spark's default of 10 ms costs a fifth of a core.
    "spark.sql.streaming.pollingDelay": "200ms",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    # Unix sockets are the fastest way between Python and the JVM.
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.python.authenticate.socketTimeout": "120s",
    # Workers are forked from a process with preloaded modules.
    "spark.python.daemon.module": "ottla.spark.daemon",
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
    # Options that plans and the user interface do not show; Spark's default hides addresses only.
    "spark.sql.redaction.options.regex": "(?i)url|password|secret|token|jaas|keystore[.]key",
}
# For checkpoints on this machine's disk: Spark's default takes 40 ms longer for a file, twice in each micro-batch.
# Both write a temporary file and rename it.
_LOCAL_DEFAULTS = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    )
}
# A Spark Connect server has settings of its own; only session settings are sent to it.
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
    """The session of this process, made if necessary. `settings` are Spark's and override the defaults here.

    `master` and `remote` default to the environment variables SPARK_MASTER and SPARK_REMOTE. `jvm_connector` adds
    Spark's own connector, `format("kafka")`, whose jars are fetched on first use.
    """
    from pyspark.sql import SparkSession

    remote = remote or (os.environ.get("SPARK_REMOTE") if master is None else None)
    given = dict(settings or {})
    if jvm_connector:
        from ottla.spark.jvm_connector import connector_jars

        given["spark.jars"] = ",".join([*filter(None, [given.get("spark.jars")]), *map(str, connector_jars())])
    python, java, environment = sys.executable, "", {}
    builder: Any = SparkSession.builder.appName(app_name)
    if remote is not None and remote.startswith("sc://"):
        builder = builder.remote(remote)
        values = {**_REMOTE_DEFAULTS, **given}
    else:
        java = find_java()
        environment = {"JAVA_HOME": java_shim(java), "SPARK_LAUNCHER_OPTS": _LAUNCHER_OPTIONS}
        master = master or os.environ.get("SPARK_MASTER") or LOCAL_MASTER
        builder = builder.remote(remote) if remote is not None else builder.master(master)
        if remote is not None or master.startswith("local"):
            # Works whatever the host name resolves to; the JVM and all workers inherit it.
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            python = python_shim(sys.executable) if _workers_find_pyspark() else python
            given = {**_LOCAL_DEFAULTS, **given}
        values = {**_DEFAULTS, **given}
        values["spark.driver.extraJavaOptions"] += _more_java_options(values, java)
    for key, value in values.items():
        builder = builder.config(key, value)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = python
    with _changed_environment(environment), warnings.catch_warnings():
        # An existing session refuses static settings with a warning; it has them already.
        warnings.filterwarnings("ignore", message="Failed to set spark", category=UserWarning)
        spark: SparkSession = builder.getOrCreate()
    register(spark)
    if environment and "spark.jars" not in values:
        from ottla.spark.class_archive import make_for_later

        make_for_later(java)
    return spark


def _workers_find_pyspark() -> bool:
    """True if this Python finds PySpark among its installed packages, so that its workers do as well."""
    import pyspark

    return any(Path(pyspark.__file__).is_relative_to(path) for path in site.getsitepackages())


def _more_java_options(values: Mapping[str, str], java: str) -> str:
    options = values["spark.driver.extraJavaOptions"]
    more = ""
    if values["spark.log.level"].upper() in ("DEBUG", "TRACE", "ALL"):
        more += " -Dottla.spark.appender=full"
    if "-XX:ArchiveClassesAtExit" not in options and "-XX:SharedArchiveFile" not in options:
        from ottla.spark.class_archive import archive_options

        more += archive_options(java)
    return more


@contextmanager
def _changed_environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Environment variables for the JVM alone: this process has them only while it starts Spark."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def register(spark: SparkSession) -> None:
    """Registers `format("ottla")` with an existing session."""
    from ottla.spark.datasource import OttlaDataSource

    spark.dataSource.register(OttlaDataSource)


def start(writer: DataStreamWriter, *, attempts: int = 5, patience_s: float = 120.0, **trigger: Any) -> StreamingQuery:
    """Starts a query and returns when it runs. Retries if Spark lost its Python helper processes.

    `trigger` are arguments of `DataStreamWriter.trigger` (`processingTime="1 second"`, `availableNow=True`). Other
    failures are raised here if they happen at the start, and by `awaitTermination` later.
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
            log.warning("Starting the query failed (attempt %d of %d): %s", attempt, attempts, _first_line(error))
        else:
            return query
    raise AssertionError("unreachable")


def _wait_for_first_batch(query: StreamingQuery, patience_s: float) -> None:
    """Returns when the query has planned a batch or has ended. Raises its failure."""
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
