"""When answers leave: each at once, or those of several connections together at the end of the loop's turn.

Sending to a client that waits wakes it up. With work in between, a machine wakes somebody for every answer, which costs
more than the answer itself; answers that leave one after another find the client awake. So where connections take
turns, their answers leave when all that can be read has been read. Where one connection has all the traffic there is
nobody to wait for, and an end of the turn would have to be planned for it alone: its answers leave at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ottla.model.ports import Scheduler

__all__ = ["SendTurn", "Sender"]

# Nobody waits for more connections than these: the first of them should not wait too long.
SENDERS_MAX = 32


class Sender(Protocol):
    def send_answers(self) -> None:
        """Sends what is ready."""


class SendTurn:
    """One for all connections of a loop."""

    __slots__ = ("_is_planned", "_last", "_scheduler", "_senders")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._senders: list[Sender] = []
        self._is_planned = False
        # Who asked last.
        self._last: Sender | None = None

    def postpones(self, sender: Sender) -> bool:
        """Whether the sender is called at the end of the turn, and is not to send now."""
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
