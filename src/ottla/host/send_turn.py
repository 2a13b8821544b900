"""Decides when answers are sent: at once, or together with those of other connections at the end of the loop's turn.

Sending to a waiting client wakes it up. If the node works between two answers, every answer causes a wake-up, which
costs more than the answer itself. If answers follow each other closely, the client is still awake. So while several
connections take turns, their answers are sent when everything readable has been read. If one connection has all the
traffic, its answers are sent at once: there is nothing to wait for, and the end of the turn would have to be planned
for this connection alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ottla.model.ports import Scheduler

__all__ = ["SendTurn", "Sender"]

# The most connections whose answers are sent together. The first of them must not wait too long.
SENDERS_MAX = 32


class Sender(Protocol):
    def send_answers(self) -> None:
        """Sends the answers that are ready."""


class SendTurn:
    """Shared by all connections of a loop."""

    __slots__ = ("_is_planned", "_last", "_scheduler", "_senders")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._senders: list[Sender] = []
        self._is_planned = False
        # The sender of the last call of `postpones`.
        self._last: Sender | None = None

    def postpones(self, sender: Sender) -> bool:
        """True if the sender must not send now, because it is called at the end of the turn."""
        if sender is self._last and not self._is_planned:
            return False
        self._last = sender
        if not self._is_planned:
            self._is_planned = True
            self._scheduler.call_soon(self._end)
        self._senders.append(sender)
        if len(self._senders) == SENDERS_MAX:
            self._send()
        return True

    def _end(self) -> None:
        self._is_planned = False
        self._send()

    def _send(self) -> None:
        senders, self._senders = self._senders, []
        for sender in senders:
            sender.send_answers()
