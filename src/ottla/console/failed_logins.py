"""Failed logins, counted by client address: password guessing is slowed down.

Failures count for an address, and for an address with a user name, so strangers cannot lock out a user. Memory is
bounded: the entry whose last failure is oldest is dropped first.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ottla.console.answers import ApiError

__all__ = ["FailedLogins", "network_of"]

# Failures of a user name from an address, and of all user names from an address, which many people may share.
FAILURES_OF_USER_MAX = 10
FAILURES_OF_ADDRESS_MAX = 50
# Concurrent attempts from an address. More of them could delay logins from other addresses.
OPEN_OF_ADDRESS_MAX = 4
SECONDS = 60.0
KEPT_MAX = 10_000
# A household or a server has all addresses of an IPv6 network of this size.
_IPV6_PREFIX = 64

_Key = tuple[str, str | None]


class FailedLogins:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # The number of failures, and the time of the first. The key is an address, and a user name or None.
        self._counts: dict[_Key, tuple[int, float]] = {}
        self._open: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._counts)

    @contextmanager
    def attempt(self, user: str, address: str | None) -> Iterator[None]:
        """Counts an attempt, unless the password is right or the cluster does not answer. Raises ApiError 429."""
        network = network_of(address)
        keys: tuple[tuple[_Key, int], ...] = (
            ((network, None), FAILURES_OF_ADDRESS_MAX),
            ((network, user), FAILURES_OF_USER_MAX),
        )
        for key, limit in keys:
            if self._count(key) >= limit:
                raise ApiError(429, "LOGIN_FAILED", "Too many failed logins from your address.", "Wait a minute.")
        if self._open.get(network, 0) >= OPEN_OF_ADDRESS_MAX:
            raise ApiError(429, "TOO_MANY", "Too many logins from your address run already.", "Try again.")
        self._open[network] = self._open.get(network, 0) + 1
        # An attempt counts from its start, so that concurrent attempts are limited like consecutive attempts.
        for key, _ in keys:
            self._add(key, 1)
        # An attempt also counts if its browser disconnects before the answer.
        is_counted = True
        try:
            yield
            is_counted = False
        except ApiError as error:
            is_counted = error.status == 401
            raise
        except Exception:
            is_counted = False
            raise
        finally:
            self._open[network] -= 1
            if not self._open[network]:
                del self._open[network]
            for key, _ in () if is_counted else keys:
                self._add(key, -1)

    def _count(self, key: _Key) -> int:
        count, since = self._counts.get(key, (0, 0.0))
        return count if self._clock() - since < SECONDS else 0

    def _add(self, key: _Key, change: int) -> None:
        count = self._count(key)
        _, since = self._counts.pop(key, (0, 0.0))
        if count + change <= 0:
            return
        self._counts[key] = (count + change, since if count else self._clock())
        if len(self._counts) > KEPT_MAX:
            del self._counts[next(iter(self._counts))]


def network_of(address: str | None) -> str:
    """The address for IPv4; the /64 network for IPv6, because a client has all addresses of it."""
    try:
        parsed = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return address or ""
    if isinstance(parsed, ipaddress.IPv6Address):
        mapped = parsed.ipv4_mapped
        return str(mapped or ipaddress.ip_network((parsed, _IPV6_PREFIX), strict=False))
    return str(parsed)
