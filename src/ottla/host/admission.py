"""Admission of connections: limits per broker, per listener and per address.

As in Kafka, a connection beyond `max.connections.per.ip` is accepted and closed at once, while at `max.connections`
(of the broker or of one listener) the listener stops accepting, so that clients wait in its backlog until another
connection ends. `max.connection.creation.rate` works the same way: a connection beyond the rate waits in the
backlog for the next second.

If brokers have their own listener, the limits of the whole node do not apply to it: a crowd of clients must not
stop replication. For each broker connection beyond `max.connections` a client's connection is closed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.model.values import Value

__all__ = ["Admission", "AdmissionLimits"]

UNLIMITED = 2**31 - 1
NO_LIMITS: Mapping[str, int] = {}


class AdmissionLimits(Value):
    connections_max: int = UNLIMITED
    connections_per_address_max: int = UNLIMITED
    # Limits by address, in the form of the operating system; host names have been resolved.
    connections_per_address_overrides: Mapping[str, int] = NO_LIMITS
    connections_per_listener_max: Mapping[str, int] = NO_LIMITS
    connections_per_second_max: int = UNLIMITED
    connections_per_listener_per_second_max: Mapping[str, int] = NO_LIMITS


class Admission:
    """Counts open connections; shared by all listeners of a node."""

    __slots__ = (
        "_by_address",
        "_by_listener",
        "_on_room",
        "_protected_listener",
        "_rate",
        "_rate_second",
        "_total",
        "limits",
        "on_excess",
    )

    def __init__(self, limits: AdmissionLimits, *, protected_listener: str | None = None) -> None:
        """`protected_listener` is the listener of the other brokers, if clients use a different one."""
        self.limits = limits
        self._protected_listener = protected_listener
        # Called when a broker was admitted beyond the limit: a client's connection has to be closed.
        self.on_excess: Callable[[], object] | None = None
        self._total = 0
        self._by_address: dict[str, int] = {}
        self._by_listener: dict[str, int] = {}
        self._on_room: list[Callable[[], object]] = []
        # Connections accepted in the current second, by listener; the total is under the empty name.
        self._rate_second = -1
        self._rate: dict[str, int] = {}

    @property
    def connections(self) -> int:
        return self._total

    def has_room(self, listener_name: str) -> bool:
        """True if the limits allow the listener another connection."""
        listener_max = self.limits.connections_per_listener_max.get(listener_name, UNLIMITED)
        has_room = listener_name == self._protected_listener or self._total < self.limits.connections_max
        return has_room and self._by_listener.get(listener_name, 0) < listener_max

    def seconds_to_wait(self, listener_name: str, now_seconds: float) -> float:
        """The time until the rate allows the listener the next connection; 0 if it is allowed now."""
        second = int(now_seconds)
        if second != self._rate_second:
            self._rate_second = second
            self._rate.clear()
        listener_max = self.limits.connections_per_listener_per_second_max.get(listener_name, UNLIMITED)
        all_max = UNLIMITED if listener_name == self._protected_listener else self.limits.connections_per_second_max
        if self._rate.get("", 0) < all_max and self._rate.get(listener_name, 0) < listener_max:
            return 0.0
        return second + 1 - now_seconds

    def count_accepted(self, listener_name: str) -> None:
        """Counts a connection towards the rate, admitted or not."""
        for name in (listener_name,) if listener_name == self._protected_listener else ("", listener_name):
            self._rate[name] = self._rate.get(name, 0) + 1

    def admit(self, listener_name: str, address: str) -> bool:
        """Admits and counts a connection, unless its address has reached its limit."""
        limits = self.limits
        address_max = limits.connections_per_address_overrides.get(address, limits.connections_per_address_max)
        count = self._by_address.get(address, 0)
        if count >= address_max:
            return False
        self._by_address[address] = count + 1
        self._by_listener[listener_name] = self._by_listener.get(listener_name, 0) + 1
        self._total += 1
        if self._total > limits.connections_max and self.on_excess is not None:
            self.on_excess()
        return True

    def release(self, listener_name: str, address: str) -> None:
        """Releases a connection that `admit` has counted."""
        count = self._by_address[address] - 1
        assert count >= 0
        if count:
            self._by_address[address] = count
        else:
            del self._by_address[address]
        self._by_listener[listener_name] -= 1
        self._total -= 1
        self._tell_waiting()

    def change_limits(self, limits: AdmissionLimits) -> None:
        """Sets limits for new connections; open connections beyond them are not closed."""
        self.limits = limits
        self._tell_waiting()

    def when_room(self, callback: Callable[[], object]) -> None:
        """Calls back once, when there may be room; the caller has to check `has_room` again."""
        self._on_room.append(callback)

    def _tell_waiting(self) -> None:
        waiting, self._on_room = self._on_room, []
        for callback in waiting:
            callback()
