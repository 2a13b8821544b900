"""TLS handshakes of accepted connections, on the event loop.

A handshake costs the loop up to a millisecond of computing, and any client can ask for one. So its steps are work for
strangers (`stranger_turns`): connections that are open are served in between. A client that does not continue is closed
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
    from ottla.host.stranger_turns import StrangerTurns
    from ottla.model.ports import Timer

__all__ = ["HANDSHAKE_SECONDS_MAX", "Handshakes"]

# The longest time that a client may take for its handshake.
HANDSHAKE_SECONDS_MAX: Final = 10.0

OnDone = Callable[[ssl.SSLSocket], object]
# Called with a sentence for the log; None if the client has closed the connection.
OnFailed = Callable[[str | None], object]


class Handshakes:
    """The handshakes of one listener."""

    def __init__(self, loop: EventLoop, turns: StrangerTurns) -> None:
        self._loop = loop
        self.turns = turns
        # In the order in which they began.
        self._running: dict[_Handshake, None] = {}

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
        self._running[_Handshake(self._loop, wrapped, self, on_done, on_failed)] = None

    def close(self) -> None:
        for handshake in list(self._running):
            handshake.fail(None)

    def close_oldest(self) -> None:
        """Closes the connection whose handshake began first."""
        for handshake in self._running:
            handshake.fail(None)
            return

    def ended(self, handshake: _Handshake) -> None:
        self._running.pop(handshake, None)


class _Handshake:
    __slots__ = (
        "_handshakes",
        "_is_over",
        "_is_reading",
        "_is_writing",
        "_loop",
        "_on_done",
        "_on_failed",
        "_socket",
        "_timer",
    )

    def __init__(
        self, loop: EventLoop, wrapped: ssl.SSLSocket, handshakes: Handshakes, on_done: OnDone, on_failed: OnFailed
    ) -> None:
        self._loop = loop
        self._socket = wrapped
        self._handshakes = handshakes
        self._on_done = on_done
        self._on_failed = on_failed
        self._is_over = False
        self._is_reading = False
        self._is_writing = False
        self._timer: Timer = loop.call_later(
            HANDSHAKE_SECONDS_MAX, self.fail, f"no TLS handshake within {HANDSHAKE_SECONDS_MAX:.0f} s"
        )
        self._wait_for_client()

    def _on_ready(self) -> None:
        if not self._handshakes.turns.run(self._step):
            # The step waits for its turn, and the descriptor would be reported in every turn until then.
            self._stop_waiting()

    def _step(self) -> None:
        if self._is_over:
            return
        try:
            self._socket.do_handshake()
        except ssl.SSLWantReadError:
            self._wait_for_client()
        except ssl.SSLWantWriteError:
            self._wait_for_client(is_writing=True)
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
        self._is_over = True
        self._timer.cancel()
        self._stop_waiting()
        self._handshakes.ended(self)

    def _wait_for_client(self, *, is_writing: bool = False) -> None:
        fileno = self._socket.fileno()
        if not self._is_reading:
            self._is_reading = True
            self._loop.add_reader(fileno, self._on_ready)
        if is_writing and not self._is_writing:
            self._is_writing = True
            self._loop.add_writer(fileno, self._on_ready)
        elif self._is_writing and not is_writing:
            self._is_writing = False
            self._loop.remove_writer(fileno)

    def _stop_waiting(self) -> None:
        fileno = self._socket.fileno()
        if self._is_reading:
            self._is_reading = False
            self._loop.remove_reader(fileno)
        if self._is_writing:
            self._is_writing = False
            self._loop.remove_writer(fileno)
