"""One member of a classic group."""

from __future__ import annotations

from collections.abc import Collection

from ottla.model.deferred import Deferred
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse

__all__ = ["ClassicMember", "Protocols"]

# Names and metadata, the preferred one first.
Protocols = tuple[tuple[str, bytes], ...]


class ClassicMember:
    """What a member said when it joined, what it was assigned, and the answers it waits for."""

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_host",
        "client_id",
        "instance_id",
        "is_new",
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
        self.awaiting_join: Deferred[JoinGroupResponse] | None = None
        self.awaiting_sync: Deferred[SyncGroupResponse] | None = None
        # Until its first rebalance is over: it does not know its id yet, and so cannot send heartbeats.
        self.is_new = False

    @property
    def has_satisfied_heartbeat(self) -> bool:
        """Whoever waits for an answer of ours is alive as far as we can tell, unless it is new and may be defunct."""
        return not self.is_new and (self.awaiting_join is not None or self.awaiting_sync is not None)

    def metadata(self, protocol: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol:
                return metadata
        return b""

    def vote(self, candidates: Collection[str]) -> str:
        """The member's favourite among the protocols that everybody has."""
        return next(name for name, _ in self.protocols if name in candidates)
