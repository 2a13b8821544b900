"""Requests to the other voters in the current role: one under way for each voter, repeated with a growing backoff."""

from __future__ import annotations

from ottla.quorum.timing import QuorumTiming

__all__ = ["VoterRequests"]


class _Contact:
    __slots__ = ("failures", "is_under_way", "retry_ms")

    def __init__(self) -> None:
        self.is_under_way = False
        self.failures = 0
        self.retry_ms = 0


class VoterRequests:
    """A new role begins with no request under way and no failures."""

    def __init__(self, timing: QuorumTiming) -> None:
        self._timing = timing
        self._contacts: dict[int, _Contact] = {}

    def restart(self) -> None:
        """The role has changed: responses to earlier requests do not count."""
        self._contacts = {}

    def is_under_way(self, voter_id: int) -> bool:
        contact = self._contacts.get(voter_id)
        return contact is not None and contact.is_under_way

    def retry_ms(self, voter_id: int) -> int:
        """The earliest time of the next request to this voter."""
        contact = self._contacts.get(voter_id)
        return 0 if contact is None else contact.retry_ms

    def failed_ids(self) -> set[int]:
        """Voters that did not answer a request, or refused it, in the current role."""
        return {voter_id for voter_id, contact in self._contacts.items() if contact.failures}

    def on_sent(self, voter_id: int) -> None:
        self._contact(voter_id).is_under_way = True

    def on_answered(self, voter_id: int) -> None:
        self._contact(voter_id).is_under_way = False

    def on_failed(self, voter_id: int, now_ms: int, *, backoff_ms_max: int) -> None:
        contact = self._contact(voter_id)
        contact.failures += 1
        contact.retry_ms = now_ms + min(self._timing.retry_backoff_ms(contact.failures), backoff_ms_max)

    def pause(self, voter_id: int, until_ms: int) -> None:
        """The voter needs no request before this time."""
        self._contact(voter_id).retry_ms = until_ms

    def invariants(self, own_id: int) -> None:
        assert own_id not in self._contacts, "a node sends itself no requests"

    def _contact(self, voter_id: int) -> _Contact:
        return self._contacts.setdefault(voter_id, _Contact())
