"""TLS handshakes of accepted connections, on the event loop.

A handshake costs the loop up to a millisecond of computing, and any client can ask for one. So a turn of the loop does
a few steps of them, and the connections that are open are served in between. A client that does not continue is closed
after a while.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ottla.tls.explain import explain_server_failure

if TYPE_CHECKING:
    from ottla.host.loop import EventLoop
    from ottla.model.ports import Timer

__all__ = ["HANDSHAKE_SECONDS_MAX", "Handshakes"]

# The longest time that a client may take for its handshake.
HANDSHAKE_SECONDS_MAX: Final = 10.0

# The most steps in one turn of the loop.
STEPS_PER_TURN: Final = 4

OnDone = Callable[[ssl.SSLSocket], object]
# Called with a sentence for the log; None if the client has closed the connection.
OnFailed = Callable[[str | None], object]


class Handshakes:
    """The handshakes of one listener."""

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self._running: set[_Handshake] = set()
        self._steps_left = STEPS_PER_TURN

    def __len__(self) -> int:
        return len(self._running)

    def begin(self, accepted: socket.socket, context: ssl.SSLContext, on_done: OnDone, on_failed: OnFailed) -> None:
        """Takes over the socket until one of the functions is called."""
        try:
            wrapped = context.wrap_socket(accepted, server_side=True, do_handshake_on_connect=False)
        except OSError:
            # The client has disconnected.
            accepted.close()
            on_failed(None)
            return
        self._running.add(_Handshake(self._loop, wrapped, self, on_done, on_failed))

    def close(self) -> None:
        for handshake in list(self._running):
            handshake.fail(None)

    def take_step(self) -> bool:
        """True if another step may be done in this turn of the loop."""
        if self._steps_left == STEPS_PER_TURN:
            self._loop.call_soon(self._begin_turn)
        if self._steps_left == 0:
            return False
        self._steps_left -= 1
        return True

    def ended(self, handshake: _Handshake) -> None:
        self._running.discard(handshake)

    def _begin_turn(self) -> None:
        self._steps_left = STEPS_PER_TURN


class _Handshake:
    __slots__ = ("_handshakes", "_is_writing", "_loop", "_on_done", "_on_failed", "_socket", "_timer")

    def __init__(
        self, loop: EventLoop, wrapped: ssl.SSLSocket, handshakes: Handshakes, on_done: OnDone, on_failed: OnFailed
    ) -> None:
        self._loop = loop
        self._socket = wrapped
        self._handshakes = handshakes
        self._on_done = on_done
        self._on_failed = on_failed
        self._is_writing = False
        self._timer: Timer = loop.call_later(
            HANDSHAKE_SECONDS_MAX, self.fail, f"no TLS handshake within {HANDSHAKE_SECONDS_MAX:.0f} s"
        )
        loop.add_reader(wrapped.fileno(), self._step)

    def _step(self) -> None:
        # The descriptor stays readable, so the next turn continues here.
        if not self._handshakes.take_step():
            return
        try:
            self._socket.do_handshake()
        except ssl.SSLWantReadError:
            self._stop_writing()
        except ssl.SSLWantWriteError:
            if not self._is_writing:
                self._is_writing = True
                self._loop.add_writer(self._socket.fileno(), self._step)
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError):
            self.fail(None)
        except OSError as error:
            self._read_rest()
            self.fail(explain_server_failure(error))
        except ValueError:
            # The socket has been closed.
            self.fail(None)
        else:
            self._end()
            self._on_done(self._socket)

    def fail(self, reason: str | None) -> None:
        self._end()
        self._socket.close()
        self._on_failed(reason)

    def _read_rest(self) -> None:
        """A socket that is closed with unread bytes is reset, and the client would not see the alert."""
        with suppress(OSError):
            socket.socket.recv(self._socket, 65_536)

    def _end(self) -> None:
        self._timer.cancel()
        self._stop_writing()
        self._loop.remove_reader(self._socket.fileno())
        self._handshakes.ended(self)

    def _stop_writing(self) -> None:
        if self._is_writing:
            self._is_writing = False
            self._loop.remove_writer(self._socket.fileno())
