"""How fast the cleaner may go."""

from __future__ import annotations

from ottla.storage.cleaner.throttle import Throttle


def test_a_throttle_of_nothing_lets_a_step_through_now_and_then() -> None:
    throttle = Throttle(bytes_per_second=0.0)
    assert throttle.delay_seconds(1, now=5.0) == 60.0
    assert throttle.delay_seconds(1, now=5.0) == 60.0
    throttle.bytes_per_second = 1000.0
    assert throttle.delay_seconds(500, now=70.0) == 0.5
