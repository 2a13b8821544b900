"""The broker sessions of the active controller.

Sessions are soft state: heartbeats are not written to the metadata log, and a new active controller starts every
session from the beginning. Times come from a monotonic clock (`steady_ms`). With a wall clock, setting it back would
keep dead brokers in session, and setting it forward would fence every broker.
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["Liveness"]

# A broker whose connection was closed by the broker's side has this fraction of a session timeout to send a heartbeat
# on a new connection.
_LOST_CONNECTION_SHARE = 2


class Liveness:
    """The sessions by broker id. A broker without a session never sent a heartbeat, or its session was ended."""

    __slots__ = (
        "_connections",
        "_fenced_offsets",
        "_last_contact_ms",
        "_lost_ms",
        "_may_lead_more",
        "_metadata_offsets",
        "_shutdown_offsets",
    )

    def __init__(
        self, *, alive: Iterable[int] = (), fenced: Iterable[int] = (), now_ms: int = 0, fenced_offset: int = -1
    ) -> None:
        """`alive` brokers get a full session from `now_ms` on; `fenced` brokers must replay up to `fenced_offset`."""
        self._last_contact_ms: dict[int, int] = dict.fromkeys(alive, now_ms)
        # The connection of a broker's last heartbeat, and when the broker's side closed it.
        self._connections: dict[int, str] = {}
        self._lost_ms: dict[int, int] = {}
        # The offset up to which a broker has replayed the metadata log.
        self._metadata_offsets: dict[int, int] = {}
        # The last offset of the decision that began a broker's controlled shutdown.
        self._shutdown_offsets: dict[int, int] = {}
        # The last offset of the decision that fenced a broker.
        self._fenced_offsets: dict[int, int] = dict.fromkeys(fenced, fenced_offset)
        # Unfenced brokers for which not all partitions without a leader have been examined.
        self._may_lead_more: set[int] = set()

    def heard(self, broker_id: int, *, now_ms: int, connection_id: str = "") -> None:
        """A registration or heartbeat has arrived: the session starts again."""
        self._last_contact_ms[broker_id] = now_ms
        self._connections[broker_id] = connection_id
        self._lost_ms.pop(broker_id, None)

    def lost(self, broker_id: int, *, now_ms: int, connection_id: str) -> None:
        """The broker's connection was closed. A live process reconnects at once, a killed process does not."""
        if self._connections.get(broker_id) == connection_id:
            self._lost_ms.setdefault(broker_id, now_ms)

    def replayed(self, broker_id: int, offset: int) -> None:
        """The broker has replayed the metadata log up to and including this offset."""
        self._metadata_offsets[broker_id] = max(self._metadata_offsets.get(broker_id, -1), offset)

    def shutdown_began(self, broker_id: int, *, offset: int) -> None:
        """Controlled shutdown: the broker may stop when the other brokers have replayed up to this offset."""
        self._shutdown_offsets[broker_id] = offset

    def fenced(self, broker_id: int, *, offset: int) -> None:
        """The broker is fenced for silence: it must replay up to this offset before it is in session again."""
        self._fenced_offsets[broker_id] = offset

    def leads_all(self, broker_id: int, *, is_certain: bool) -> None:
        """Notes whether it is certain that no partition without a leader remains that the broker can lead."""
        if is_certain:
            self._may_lead_more.discard(broker_id)
        else:
            self._may_lead_more.add(broker_id)

    def forget(self, broker_id: int) -> None:
        """The session is over, and the broker's next registration need not wait for its end."""
        for by_broker in (
            self._last_contact_ms,
            self._lost_ms,
            self._metadata_offsets,
            self._shutdown_offsets,
            self._fenced_offsets,
        ):
            by_broker.pop(broker_id, None)
        self._connections.pop(broker_id, None)
        self._may_lead_more.discard(broker_id)

    def excuse(self, held_up_ms: int) -> None:
        """Extends every session by the time in which this controller was held up and could not receive heartbeats."""
        for broker_id in self._last_contact_ms:
            self._last_contact_ms[broker_id] += held_up_ms
        for broker_id in self._lost_ms:
            self._lost_ms[broker_id] += held_up_ms

    def session_end_ms(self, broker_id: int, *, session_timeout_ms: int) -> int:
        """When the session ends without another heartbeat; 0 for a broker without a session."""
        last = self._last_contact_ms.get(broker_id)
        if last is None:
            return 0
        end = last + session_timeout_ms
        lost = self._lost_ms.get(broker_id)
        return end if lost is None else min(end, lost + session_timeout_ms // _LOST_CONNECTION_SHARE)

    def has_session(self, broker_id: int, *, now_ms: int, session_timeout_ms: int) -> bool:
        return now_ms < self.session_end_ms(broker_id, session_timeout_ms=session_timeout_ms)

    def metadata_offset(self, broker_id: int) -> int:
        """The offset up to which the broker has replayed the metadata log; -1 if it is not known."""
        return self._metadata_offsets.get(broker_id, -1)

    def shutdown_offset(self, broker_id: int) -> int:
        """The offset of `shutdown_began`; 0 if another controller began the shutdown."""
        return self._shutdown_offsets.get(broker_id, 0)

    def may_lead_more(self, broker_id: int) -> bool:
        """True if partitions without a leader may wait for this unfenced broker."""
        return broker_id in self._may_lead_more

    def fenced_offset(self, broker_id: int) -> int:
        """The offset of `fenced`; -1 if the broker was not fenced for silence."""
        return self._fenced_offsets.get(broker_id, -1)
