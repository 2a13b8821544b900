"""What tests of connectors share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.connect_frames import interpreted

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def plain_spark(spark: SparkSession) -> Iterator[SparkSession]:
    """The session without generated code: quicker for a handful of rows."""
    with interpreted(spark) as found:
        yield found
