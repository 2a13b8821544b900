"""Removes the leftovers of a failed test before the next test begins: a failure must not cause further failures.

A failing test does not reach the lines that close its clients, directories and queries. Its frames keep these objects,
and Python reports them as unclosed resources when it collects them: during another test, which then fails.
"""

from __future__ import annotations

import contextlib
import gc
import sys
import warnings
from collections.abc import Generator

import pytest

__all__ = ["pytest_runtest_makereport", "pytest_runtest_teardown"]

FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    try:
        return (yield)
    finally:
        if FAILED in item.stash:
            stop_queries()
            forget_frames()


def stop_queries() -> None:
    """Stops the queries of the failed test in the Spark session, which the next tests use, too."""
    sessions = sys.modules.get("pyspark.sql.session")
    # A failed query raises its error again, and so does a broken session; the test has reported it already.
    with contextlib.suppress(Exception):
        spark = sessions.SparkSession.getActiveSession() if sessions else None
        for query in spark.streams.active if spark else ():
            with contextlib.suppress(Exception):
                query.stop()


def forget_frames() -> None:
    for name in ("last_exc", "last_type", "last_value", "last_traceback"):
        if hasattr(sys, name):
            delattr(sys, name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()
