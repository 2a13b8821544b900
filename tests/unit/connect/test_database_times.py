"""Database times without a time zone, and the limit up to which a table is read."""

from __future__ import annotations

import datetime
import re

import pytest

from ottla.connect.api import ConnectError
from ottla.connect.plugins.connectors.databases import columns
from ottla.connect.plugins.connectors.databases.dialect import open_database

MOMENT = datetime.datetime(2024, 7, 1, 10, 0, tzinfo=datetime.UTC)


@pytest.mark.parametrize(
    ("url", "without", "with_zone"),
    [
        ("jdbc:sqlite:none", "2024-07-01 12:00:00", "2024-07-01 13:00:00+03:00"),
        (
            "jdbc:postgresql://nowhere/none",
            datetime.datetime.fromisoformat("2024-07-01 12:00:00"),
            datetime.datetime.fromisoformat("2024-07-01 13:00:00+03:00"),
        ),
    ],
)
def test_what_says_no_zone_is_in_that_of_the_setting(url: str, without: object, with_zone: object) -> None:
    parser = open_database({"connection.url": url, "db.timezone": "Europe/Berlin"}).parser(columns.timestamp())
    assert parser is not None
    assert parser(without).astimezone(datetime.UTC) == MOMENT
    assert parser(with_zone).astimezone(datetime.UTC) == MOMENT


def test_sqlite_writes_in_the_zone_of_the_setting() -> None:
    settings = {"connection.url": "jdbc:sqlite:none", "db.timezone": "Europe/Berlin"}
    formatter = open_database(settings).formatter(columns.timestamp())
    assert formatter is not None
    assert formatter(MOMENT) == "2024-07-01 12:00:00.000"


def test_an_unknown_time_zone_is_reported() -> None:
    with pytest.raises(ConnectError, match=r"db\.timezone is Europe/Atlantis"):
        open_database({"connection.url": "jdbc:sqlite:none", "db.timezone": "Europe/Atlantis"})


def test_rows_of_the_second_that_has_not_ended_wait() -> None:
    """CURRENT_TIMESTAMP is a second's beginning: rows that come later in it would be behind what was read."""
    limit = open_database({"connection.url": "jdbc:sqlite:none"}).before_now(0)
    assert re.fullmatch(r"'\d{4}-\d\d-\d\d \d\d:\d\d:\d\d'", limit)
