"""One member of a classic group."""

from __future__ import annotations

from collections.abc import Collection

__all__ = ["ClassicMember", "Protocols"]

# Names and metadata, the preferred one first.
Protocols = tuple[tuple[str, bytes], ...]


class ClassicMember:
    """The values that a member sent when it joined, and its assignment."""

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "instance_id",
        "member_id",
        "protocol_type",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
    )

    def __init__(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.assignment = assignment

    def metadata(self, protocol: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def vote(self, candidates: Collection[str]) -> str:
        """The member's favourite among the protocols that all members have."""
        return next(name for name, _ in self.protocols if name in candidates)
