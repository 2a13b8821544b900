"""Rates and buckets on a clock that the tests set."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.quotas.rates import TokenBucket, WindowedRate


def rate(*, window_seconds: float = 1.0, window_count: int = 11) -> WindowedRate:
    return WindowedRate(window_seconds=window_seconds, window_count=window_count)


def test_who_was_silent_may_use_all_windows_but_one_at_once() -> None:
    measured = rate()
    measured.record(10_000, 100.0)
    assert measured.rate(100.0) == 1000
    assert measured.excess_seconds(1000, 100.0) == 0
    measured.record(1, 100.0)
    assert measured.excess_seconds(1000, 100.0) == pytest.approx(0.001)


def test_the_wait_is_as_long_as_it_takes_for_the_rate_to_be_right() -> None:
    measured = rate()
    measured.record(15_000, 0.0)
    assert measured.excess_seconds(1000, 0.0) == pytest.approx(5.0)
    # Time passes only within windows at first: ten of them are always there.
    assert measured.excess_seconds(1000, 0.5) == pytest.approx(4.5)
    assert measured.excess_seconds(1000, 7.5) == pytest.approx(4.5)
    assert measured.excess_seconds(1000, 10.75) == pytest.approx(4.25)
    assert measured.excess_seconds(1000, 11.0) == 0


def test_what_is_too_old_is_forgotten() -> None:
    measured = rate(window_count=3)
    measured.record(100, 0.0)
    measured.record(10, 0.9)
    measured.record(1, 2.0)
    # The first window counts until its last value expires.
    assert measured.rate(3.5) == pytest.approx(111 / 3.5)
    assert measured.rate(3.95) == pytest.approx(1 / 2.95)
    assert not measured.is_unused(3.95)
    assert measured.is_unused(5.0)
    assert measured.rate(5.0) == 0


def test_what_is_taken_back_does_not_count() -> None:
    measured = rate()
    measured.record(500, 0.0)
    measured.record(9_000, 1.0)
    measured.record(-9_000, 1.0)
    assert measured.rate(1.0) == pytest.approx(50)


@given(
    amounts=st.lists(st.tuples(st.floats(0, 3), st.integers(1, 50_000)), min_size=1, max_size=60),
    limit=st.integers(100, 10_000),
)
def test_who_waits_as_told_stays_within_the_quota(amounts: list[tuple[float, int]], limit: int) -> None:
    """Over any period, the total is at most the quota, the burst and the last request."""
    measured = rate()
    now = started = 1000.0
    used = 0
    for pause, amount in amounts:
        now += pause
        assert used <= limit * (now - started + 10) + 1e-6 * used + 50_000
        measured.record(amount, now)
        used += amount
        now += measured.excess_seconds(limit, now)


def test_a_bucket_may_be_overdrawn_once() -> None:
    bucket = TokenBucket(2.0, burst_seconds=11, now=50.0)
    assert bucket.tokens(50.0) == 22
    assert bucket.is_full(50.0)
    bucket.record(22, 50.0)
    assert bucket.excess_seconds(50.0) == 0
    bucket.record(30, 50.0)
    assert bucket.excess_seconds(50.0) == 15
    assert bucket.excess_seconds(60.0) == 5
    assert bucket.excess_seconds(65.0) == 0
    assert not bucket.is_full(70.0)
    assert bucket.is_full(100.0)
    assert bucket.tokens(1000.0) == 22
