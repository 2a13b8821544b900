"""Fixtures of the connector tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.connect_frames import interpreted
from tests.support.postgres import PostgresServer, postgres_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def plain_spark(spark: SparkSession) -> Iterator[SparkSession]:
    """The session without generated code: quicker for a handful of rows."""
    with interpreted(spark) as session:
        yield session


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for all tests; each makes a database of its own."""
    with postgres_server() as server:
        yield server
