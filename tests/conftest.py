"""What holds for every test: generated values are the same in every run, and a slow machine is no failure.

`HYPOTHESIS_PROFILE=wander` draws new values instead; what that finds becomes a test of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("wander", deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark session of a test process; it takes seconds to start."""
    import ottla.spark

    found = ottla.spark.session("tests", master="local[2,4]")
    yield found
    found.stop()
