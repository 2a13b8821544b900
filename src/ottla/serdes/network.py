"""Lets an event loop call serializers that may ask a registry: a call that needs the network is repeated in a thread.

Answers of a registry are cached, so almost all calls need no network and run on the loop at once. Inside
`without_network`, a client of a registry raises `NetworkNeeded` before it opens a connection.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["NetworkNeeded", "check_network", "without_network"]

_is_forbidden: ContextVar[bool] = ContextVar("network is forbidden", default=False)


class NetworkNeeded(BaseException):
    """Not an `Exception`: the call has not failed, and no serializer or rule may handle it."""


@contextmanager
def without_network() -> Iterator[None]:
    token = _is_forbidden.set(True)
    try:
        yield
    finally:
        _is_forbidden.reset(token)


def check_network() -> None:
    """Called before every request. Raises NetworkNeeded where it would block an event loop."""
    if _is_forbidden.get():
        raise NetworkNeeded
