"""Muted connections: they are not read for a while, because their client has exceeded its quota.

A throttle may last for hours, and a connection that is not read does not show that its client has closed it. So the
connection is checked at intervals. If the client has left unread requests, the connection stays open until they are
handled.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.host.byte_stream import ByteStream
    from ottla.host.loop import EventLoop
    from ottla.model.ports import Timer

__all__ = ["CHECK_SECONDS", "Muting", "is_closed_by_client"]

CHECK_SECONDS = 10.0


class Muting:
    """`until` is 0 if the connection is not muted. `on_check` is called at intervals, `on_over` at the end."""

    __slots__ = ("_is_cancelled", "_loop", "_on_check", "_on_over", "timer", "until")

    def __init__(self, loop: EventLoop, *, on_check: Callable[[], object], on_over: Callable[[], object]) -> None:
        self._loop = loop
        self._on_check = on_check
        self._on_over = on_over
        self._is_cancelled = False
        self.timer: Timer | None = None
        self.until = 0.0

    def extend(self, until: float) -> bool:
        """Mutes until this time, unless the present throttle ends later. Returns True if the end has changed."""
        if until <= self.until:
            return False
        self.until = until
        self._plan()
        return True

    def cancel(self) -> None:
        self._is_cancelled = True
        self._on_check = self._on_over = _do_nothing
        if self.timer is not None:
            self.timer.cancel()

    def _plan(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.timer = self._loop.call_at(min(self.until, self._loop.time() + CHECK_SECONDS), self._on_timer)

    def _on_timer(self) -> None:
        if self._loop.time() >= self.until:
            self.timer = None
            self.until = 0.0
            self._on_over()
            return
        self._on_check()
        if not self._is_cancelled:
            self._plan()


def _do_nothing() -> None:
    """The callback of a cancelled throttle. The connection is not kept in memory by it."""


def is_closed_by_client(connected: ByteStream) -> bool:
    """True if the client has closed the connection and no bytes are left to read."""
    try:
        return not connected.recv(1, socket.MSG_PEEK)
    except (BlockingIOError, InterruptedError):
        return False
    except OSError:
        return True
