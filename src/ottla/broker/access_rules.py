"""What requests about access rules have in common. There is no authorizer to keep any: each is answered with that."""

from __future__ import annotations

from ottla.broker.context import CloseConnection

__all__ = ["NO_AUTHORIZER", "check_known"]

NO_AUTHORIZER = "No authorizer is configured, so there are no access rules."


def check_known(*, resource_type: int, pattern_type: int, operation: int, permission_type: int) -> None:
    """Raises CloseConnection where a rule or filter says of one of its parts that it is unknown, for which 0 stands."""
    if not (resource_type and pattern_type and operation and permission_type):
        raise CloseConnection("a request about access rules of an unknown kind")
