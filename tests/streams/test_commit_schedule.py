"""When a worker commits: the interval is the latest time, and a worker that has caught up commits earlier."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.streams.errors import StreamsError
from ottla.streams.runtime.commit_schedule import CommitSchedule
from ottla.streams.runtime.config import ApplicationConfig


def schedule_after_commit(*, took: float = 0.002) -> CommitSchedule:
    """A commit began at 10.0; records came at 10.005."""
    schedule = CommitSchedule(interval_ms=100, shortest_ms=20, now=0.0)
    schedule.on_commit(10.0)
    schedule.on_committed(10.0 + took)
    schedule.on_begin(10.005)
    return schedule


def test_a_worker_that_lags_behind_commits_after_the_interval() -> None:
    assert schedule_after_commit().due(is_caught_up=False) == pytest.approx(10.1)


def test_a_worker_that_has_caught_up_commits_after_the_shortest_interval() -> None:
    assert schedule_after_commit().due(is_caught_up=True) == pytest.approx(10.02)


def test_slow_commits_take_a_bounded_share_of_the_time() -> None:
    assert schedule_after_commit(took=0.01).due(is_caught_up=True) == pytest.approx(10.05)


def test_commits_that_take_longer_than_the_interval_do_not_delay_it() -> None:
    assert schedule_after_commit(took=0.3).due(is_caught_up=True) == pytest.approx(10.1)


def test_after_a_pause_the_first_records_are_committed_at_once() -> None:
    schedule = schedule_after_commit()
    schedule.on_begin(12.0)
    assert schedule.due(is_caught_up=False) == 12.0


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"processing.guarantee": "exactly_once_v2"}, (100, 20)),
        ({"processing.guarantee": "exactly_once_v2", "commit.interval.ms": 1000}, (1000, 200)),
        ({"processing.guarantee": "exactly_once_v2", "commit.interval.ms": 50}, (50, 20)),
        ({"processing.guarantee": "exactly_once_v2", "commit.interval.ms": 10}, (10, 10)),
        ({"processing.guarantee": "exactly_once_v2", "commit.interval.min.ms": 100}, (100, 100)),
        # The cache gathers updates for the whole interval.
        ({"processing.guarantee": "exactly_once_v2", "statestore.cache.max.bytes": 1000}, (100, 100)),
        # Results do not wait for the commit.
        ({}, (30_000, 30_000)),
    ],
)
def test_the_default_of_the_shortest_interval(properties: dict[str, Any], expected: tuple[int, int]) -> None:
    config = ApplicationConfig.from_properties({"application.id": "a", "bootstrap.servers": "h:1", **properties})
    assert (config.commit_interval_ms, config.commit_interval_min_ms) == expected


def test_a_shortest_interval_that_is_no_number_is_refused() -> None:
    with pytest.raises(StreamsError, match=r"commit\.interval\.min\.ms='soon' is not a number"):
        ApplicationConfig.from_properties(
            {"application.id": "a", "bootstrap.servers": "h:1", "commit.interval.min.ms": "soon"}
        )
