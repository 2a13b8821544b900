"""Timeouts and backoffs of the quorum."""

from __future__ import annotations

from random import Random
from typing import NamedTuple

__all__ = ["NEVER_MS", "QuorumSettings", "QuorumTiming"]

NEVER_MS = 1 << 62

RETRY_BACKOFF_MS_MAX = 1000
ELECTION_BACKOFF_BASE_MS = 20
DOUBLINGS_MAX = 10


class QuorumSettings(NamedTuple):
    election_timeout_ms: int = 1000
    election_backoff_max_ms: int = 1000
    fetch_timeout_ms: int = 2000
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20


class QuorumTiming:
    """Random and growing delays within the settings."""

    def __init__(self, settings: QuorumSettings, random: Random) -> None:
        self.settings = settings
        self._random = random

    def start_delay_ms(self, delay_ms_max: int) -> int:
        return self._random.randint(0, delay_ms_max)

    def election_timeout_ms(self) -> int:
        """Between one and two timeouts, so that voters that wait together do not become candidates together."""
        timeout_ms = self.settings.election_timeout_ms
        return timeout_ms + self._random.randint(0, timeout_ms)

    def election_backoff_ms(self, elections: int) -> int:
        """The time that a candidate waits after this number of lost elections."""
        limit_ms = ELECTION_BACKOFF_BASE_MS << min(elections, DOUBLINGS_MAX)
        return self._random.randint(0, min(limit_ms, self.settings.election_backoff_max_ms))

    def retry_backoff_ms(self, failures: int) -> int:
        """The time to wait after this number of failed requests in a row."""
        first_ms = max(self.settings.retry_backoff_ms, 1)
        return int(min(first_ms << min(failures - 1, DOUBLINGS_MAX), RETRY_BACKOFF_MS_MAX))
