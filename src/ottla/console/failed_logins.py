"""Failed logins, counted by the address they come from: guessing is slowed down, and locks out nobody else.

A user cannot be locked out by strangers: an address counts for itself, and for itself with a user name. Memory is
bounded: the address that failed longest ago is forgotten first.
"""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ottla.console.answers import ApiError

__all__ = ["FailedLogins", "network_of"]

# Of one user name from one address, and of all names from one address. Many people may share an address.
FAILURES_OF_USER_MAX = 10
FAILURES_OF_ADDRESS_MAX = 50
# Attempts of one address that are open at the same time: further ones could keep others waiting.
OPEN_OF_ADDRESS_MAX = 4
SECONDS = 60.0
KEPT_MAX = 10_000
# A household or a server has a network of this size, and all addresses in it.
_IPV6_PREFIX = 64

_Key = tuple[str, str | None]


class FailedLogins:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # How often, and since when. The key is an address, and a user name or None.
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
        for key, most in keys:
            if self._count(key) >= most:
                raise ApiError(429, "LOGIN_FAILED", "Too many failed logins from your address.", "Wait a minute.")
        if self._open.get(network, 0) >= OPEN_OF_ADDRESS_MAX:
            raise ApiError(429, "TOO_MANY", "Too many logins from your address run already.", "Try again.")
        self._open[network] = self._open.get(network, 0) + 1
        # Attempts at the same time count as those one after the other, so they count from the beginning.
        for key, _ in keys:
            self._add(key, 1)
        # An attempt counts as well if its browser goes away before the answer.
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
    """The address for IPv4; the network of /64 for IPv6, of which one client has all addresses."""
    try:
        parsed = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return address or ""
    if isinstance(parsed, ipaddress.IPv6Address):
        mapped = parsed.ipv4_mapped
        return str(mapped or ipaddress.ip_network((parsed, _IPV6_PREFIX), strict=False))
    return str(parsed)
