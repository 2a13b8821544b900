"""Bytes a second over a few windows."""

from __future__ import annotations

import pytest

from ottla.model.byte_rate import ByteRate


def test_nothing_is_within_any_limit() -> None:
    rate = ByteRate(limit=0)
    assert rate.rate(100.0) == 0
    assert not rate.is_exceeded(100.0)
    assert rate.excess_seconds(100.0) == 0


def test_a_first_burst_counts_over_one_window() -> None:
    rate = ByteRate(limit=1_000)
    rate.record(500, 10.0)
    rate.record(1_500, 10.1)
    assert rate.rate(10.1) == 2_000
    assert rate.is_exceeded(10.1)
    # Two seconds after the window began it is no more than was allowed.
    assert rate.excess_seconds(10.1) == pytest.approx(1.0)
    assert rate.rate(12.0) == 1_000
    assert not rate.is_exceeded(12.0)


def test_old_windows_are_forgotten() -> None:
    rate = ByteRate(limit=1, window_seconds=1.0, window_count=3)
    rate.record(9, 0.0)
    rate.record(3, 1.5)
    assert rate.rate(2.0) == 6
    assert rate.rate(3.0) == 3 / 1.5
    assert rate.rate(4.5) == 0


def test_what_never_fits_is_tried_again_after_a_while() -> None:
    rate = ByteRate(limit=0)
    rate.record(1, 0.0)
    assert rate.excess_seconds(0.0) == 1.0
    small = ByteRate(limit=1)
    small.record(10**9, 0.0)
    assert small.excess_seconds(0.0) == 11.0


def test_without_a_limit_nothing_is_exceeded() -> None:
    rate = ByteRate()
    rate.record(1 << 62, 0.0)
    assert not rate.is_exceeded(0.0)
