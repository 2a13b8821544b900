"""What holds for every test: generated values are the same in every run, and a slow machine is no failure.

`HYPOTHESIS_PROFILE=wander` draws new values instead; what that finds becomes a test of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from tests.support.leftovers import pytest_runtest_makereport, pytest_runtest_teardown

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from xdist.remote import Producer
    from xdist.scheduler import Scheduling

__all__ = ["pytest_runtest_makereport", "pytest_runtest_teardown"]

# No test starts a second Spark in the background.
os.environ.setdefault("OTTLA_CLASS_ARCHIVE", "off")

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("wander", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark session of a test process; it takes seconds to start."""
    import ottla.spark
    from ottla.spark.jvm_connector import ConnectorUnavailableError
    from tests.support.spark_java import SESSION_SETTINGS

    try:
        session = ottla.spark.session("tests", master="local[2,4]", settings=SESSION_SETTINGS, jvm_connector=True)
    except ConnectorUnavailableError:
        # Tests of Spark's own connector ask for its jars themselves, and say why they are skipped.
        session = ottla.spark.session("tests", master="local[2,4]", settings=SESSION_SETTINGS)
    yield session
    session.stop()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The first query of a session starts half a dozen processes; on a busy machine that takes its time."""
    for item in items:
        if item.get_closest_marker("spark") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(600))
    if hasattr(config, "workerinput"):
        from tests.support.schedule import longest_first

        longest_first(items)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    from tests.support.schedule import Schedule

    return Schedule(config, log) if config.getoption("dist") == "loadfile" else None
