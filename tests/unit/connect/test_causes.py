"""The cause of a failure, in one line."""

from __future__ import annotations

import pytest

from ottla.connect.api import RetriableError
from ottla.connect.work.causes import cause_of, trace_of

REFUSED = (
    'PostgreSQL: connection failed: connection to server at "127.0.0.1", port 9 failed: Connection refused\n'
    "\tIs the server running on that host and accepting TCP/IP connections?"
)
STAGE = """Job aborted due to stage failure: Task 0 in stage 5.0 failed 4 times, most recent failure: \
Lost task 0.3 in stage 5.0 (TID 8) (localhost executor driver): org.apache.spark.SparkRuntimeException: \
[USER_RAISED_EXCEPTION] VALUE_CONVERTER in JsonConverter failed: not JSON. SQLSTATE: P0001
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.raiseError(QueryExecutionErrors.scala:3082)
\tat java.base/java.lang.Thread.run(Thread.java:840)

Driver stacktrace:"""
WORKER = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "reader.py", line 3, in read
    raise OSError("first")
OSError: first

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "reader.py", line 5, in read
    raise RetriableError("the database restarts")
ottla.connect.api.plugin.RetriableError: the database restarts

JVM stacktrace:
org.apache.spark.api.python.PythonException
\tat org.apache.spark.api.python.BasePythonRunner"""


class SparkError(Exception):
    """Stands for the exceptions of PySpark."""


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (ValueError("no such column"), "ValueError: no such column"),
        (RetriableError(REFUSED), "RetriableError: " + " ".join(REFUSED.split())),
        (SparkError(STAGE), "SparkRuntimeException: VALUE_CONVERTER in JsonConverter failed: not JSON."),
        (SparkError("[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n== SQL =="), "SparkError: Division by zero."),
        (SparkError(WORKER), "RetriableError: the database restarts"),
        (SparkError("Traceback (most recent call last):"), "SparkError: Traceback (most recent call last):"),
        (KeyError("x" * 2_000), "KeyError: '" + "x" * 489),
    ],
)
def test_the_cause_is_one_line(error: Exception, cause: str) -> None:
    assert cause_of(error) == cause
    first, _, rest = trace_of(error).partition("\n")
    assert first == cause
    assert type(error).__name__ in rest
