"""Windows of time, in milliseconds or `timedelta`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from ottla.streams.errors import TopologyError
from ottla.streams.record import Window

__all__ = ["JoinWindows", "SessionWindows", "SlidingWindows", "TimeWindows", "UnlimitedWindows", "milliseconds"]

Duration = int | timedelta

# The end of a window that never ends.
_FOREVER = (1 << 63) - 1


def milliseconds(duration: Duration) -> int:
    if isinstance(duration, timedelta):
        return duration // timedelta(milliseconds=1)
    return duration


def _not_negative(name: str, value: int) -> int:
    if value < 0:
        raise TopologyError(f"{name} cannot be negative; it is {value} ms.")
    return value


def _positive(name: str, value: int) -> int:
    if value <= 0:
        raise TopologyError(f"{name} must be longer than 0 ms; it is {value} ms.")
    return value


@dataclass(frozen=True, slots=True)
class TimeWindows:
    """Tumbling windows, or hopping ones after `advance_by`. Starts are multiples of the advance."""

    size_ms: int
    advance_ms: int
    grace_ms: int

    @classmethod
    def of_size_with_no_grace(cls, size: Duration) -> TimeWindows:
        return cls.of_size_and_grace(size, 0)

    @classmethod
    def of_size_and_grace(cls, size: Duration, after_window_end: Duration) -> TimeWindows:
        size_ms = _positive("The size of a window", milliseconds(size))
        return cls(size_ms, size_ms, _not_negative("The grace period", milliseconds(after_window_end)))

    def advance_by(self, advance: Duration) -> TimeWindows:
        advance_ms = milliseconds(advance)
        if not 0 < advance_ms <= self.size_ms:
            raise TopologyError(
                f"Windows of {self.size_ms} ms advance by more than 0 and at most {self.size_ms} ms, not {advance_ms}."
            )
        return replace(self, advance_ms=advance_ms)

    def windows_for(self, timestamp: int) -> list[Window]:
        first = max(0, timestamp - self.size_ms + self.advance_ms) // self.advance_ms * self.advance_ms
        return [Window(start, start + self.size_ms) for start in range(first, timestamp + 1, self.advance_ms)]


@dataclass(frozen=True, slots=True)
class UnlimitedWindows:
    """One window that begins at a time and never ends."""

    start_ms: int = 0

    @classmethod
    def of(cls) -> UnlimitedWindows:
        return cls()

    def start_on(self, start_ms: int) -> UnlimitedWindows:
        return UnlimitedWindows(_not_negative("The start of a window", start_ms))

    @property
    def size_ms(self) -> int:
        return _FOREVER

    @property
    def grace_ms(self) -> int:
        return 0

    def windows_for(self, timestamp: int) -> list[Window]:
        return [Window(self.start_ms, _FOREVER)] if timestamp >= self.start_ms else []


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """Windows around records: all records whose timestamps differ by at most a time. Both ends are included."""

    size_ms: int
    grace_ms: int

    @classmethod
    def of_time_difference_with_no_grace(cls, time_difference: Duration) -> SlidingWindows:
        return cls.of_time_difference_and_grace(time_difference, 0)

    @classmethod
    def of_time_difference_and_grace(cls, time_difference: Duration, grace: Duration) -> SlidingWindows:
        return cls(
            _not_negative("The time difference", milliseconds(time_difference)),
            _not_negative("The grace period", milliseconds(grace)),
        )


@dataclass(frozen=True, slots=True)
class SessionWindows:
    """Sessions: records of a key belong together as long as no gap between them is longer than a time."""

    gap_ms: int
    grace_ms: int

    @classmethod
    def of_inactivity_gap_with_no_grace(cls, inactivity_gap: Duration) -> SessionWindows:
        return cls.of_inactivity_gap_and_grace(inactivity_gap, 0)

    @classmethod
    def of_inactivity_gap_and_grace(cls, inactivity_gap: Duration, after_window_end: Duration) -> SessionWindows:
        return cls(
            _positive("The gap of a session", milliseconds(inactivity_gap)),
            _not_negative("The grace period", milliseconds(after_window_end)),
        )


@dataclass(frozen=True, slots=True)
class JoinWindows:
    """How far apart the timestamps of two records may be that are joined."""

    before_ms: int
    after_ms: int
    grace_ms: int

    @classmethod
    def of_time_difference_with_no_grace(cls, time_difference: Duration) -> JoinWindows:
        return cls.of_time_difference_and_grace(time_difference, 0)

    @classmethod
    def of_time_difference_and_grace(cls, time_difference: Duration, after_window_end: Duration) -> JoinWindows:
        difference = _not_negative("The time difference", milliseconds(time_difference))
        return cls(difference, difference, _not_negative("The grace period", milliseconds(after_window_end)))

    def before(self, time_difference: Duration) -> JoinWindows:
        """How much earlier than the left record the right one may be."""
        return replace(self, before_ms=milliseconds(time_difference)).checked()

    def after(self, time_difference: Duration) -> JoinWindows:
        """How much later than the left record the right one may be."""
        return replace(self, after_ms=milliseconds(time_difference)).checked()

    def checked(self) -> JoinWindows:
        if self.before_ms + self.after_ms < 0:
            raise TopologyError("A join window ends before it begins: before + after is negative.")
        return self

    @property
    def size_ms(self) -> int:
        return self.before_ms + self.after_ms
