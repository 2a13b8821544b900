"""A connection that is not read from for a while, because its client has used more than its quota.

A throttle may last for hours, and nothing that is not read tells of its end: so once in a while it is looked whether
the client is still there. One that has left requests behind stays until they are handled, for it was promised so.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ottla.host.byte_stream import ByteStream
    from ottla.host.loop import EventLoop
    from ottla.model.ports import Timer

__all__ = ["LOOK_SECONDS", "Muting", "has_left"]

LOOK_SECONDS = 10.0


class Muting:
    """`until` is 0 when the client is heard. `on_look` is called from time to time before `on_over` is."""

    __slots__ = ("_is_cancelled", "_loop", "_on_look", "_on_over", "timer", "until")

    def __init__(self, loop: EventLoop, *, on_look: Callable[[], object], on_over: Callable[[], object]) -> None:
        self._loop = loop
        self._on_look = on_look
        self._on_over = on_over
        self._is_cancelled = False
        self.timer: Timer | None = None
        self.until = 0.0

    def extend(self, until: float) -> bool:
        """Whether that is later than before: the longer silence counts."""
        if until <= self.until:
            return False
        self.until = until
        self._plan()
        return True

    def cancel(self) -> None:
        self._is_cancelled = True
        if self.timer is not None:
            self.timer.cancel()

    def _plan(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.timer = self._loop.call_at(min(self.until, self._loop.time() + LOOK_SECONDS), self._on_timer)

    def _on_timer(self) -> None:
        if self._loop.time() >= self.until:
            self.timer = None
            self.until = 0.0
            self._on_over()
            return
        self._on_look()
        if not self._is_cancelled:
            self._plan()


def has_left(connected: ByteStream) -> bool:
    """Whether the client has closed the connection, and has left nothing to read behind."""
    try:
        return not connected.recv(1, socket.MSG_PEEK)
    except (BlockingIOError, InterruptedError):
        return False
    except OSError:
        return True
