"""Finds the quota that applies to a request.

A quota is set for a user, for a client id, or for a pair of them; a default quota applies where there is no other. Of
the quotas that match a request the most specific one applies, in Kafka's order:

    user and client id, user and default client id, user,
    default user and client id, default user and default client id, default user,
    client id, default client id

Requests that match the same rule with the same names share one quota: a quota of a user is shared by all client ids of
that user, and every client id has a quota of its own where the rule names client ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.metadata.image import CLIENT_ID, IP, USER, QuotaEntity
from ottla.model.addresses import address_bytes

__all__ = ["Assigned", "ConnectionLimits", "QuotaTable"]

# A place in the order above: the user and the client id. None is the default, and an empty name means that the rule
# does not look at it.
_ABSENT = ""
_Place = tuple[str | None, str | None]


class Assigned(NamedTuple):
    """A quota, and the user and client id that share it. An empty name stands for all."""

    user: str
    client_id: str
    limit: float


class QuotaTable:
    """The quotas of one key, such as `producer_byte_rate`."""

    __slots__ = ("_limits",)

    def __init__(self, key: str, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        self._limits: dict[_Place, float] = {}
        for entity, values in quotas.items():
            names = dict(entity)
            if key in values and IP not in names:
                self._limits[names.get(USER, _ABSENT), names.get(CLIENT_ID, _ABSENT)] = values[key]

    def __bool__(self) -> bool:
        return bool(self._limits)

    def assigned(self, user: str, client_id: str) -> Assigned | None:
        """The quota of a request; None if no quota applies."""
        limits = self._limits
        for place, shared_by in _places(user, client_id):
            limit = limits.get(place)
            if limit is not None:
                return Assigned(*shared_by, limit)
        return None


def _places(user: str, client_id: str) -> Iterable[tuple[_Place, tuple[str, str]]]:
    """The places of the order, with the names that share a quota of that place."""
    for user_place in (user, None):
        if client_id:
            yield (user_place, client_id), (user, client_id)
        yield (user_place, None), (user, client_id)
        yield (user_place, _ABSENT), (user, "")
    if client_id:
        yield (_ABSENT, client_id), ("", client_id)
    yield (_ABSENT, None), ("", client_id)


class ConnectionLimits:
    """The limits of connections per second and address (KIP-612)."""

    __slots__ = ("_by_address", "_default")

    KEY = "connection_creation_rate"

    def __init__(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        self._default: float | None = None
        self._by_address: dict[bytes, float] = {}
        for entity, values in quotas.items():
            kind, name = entity[0]
            if kind != IP or self.KEY not in values:
                continue
            if name is None:
                self._default = values[self.KEY]
            elif (address := address_bytes(name)) is not None:
                self._by_address[address] = values[self.KEY]

    def __bool__(self) -> bool:
        return self._default is not None or bool(self._by_address)

    def of(self, address: str) -> float | None:
        return self._by_address.get(address_bytes(address) or b"", self._default)
