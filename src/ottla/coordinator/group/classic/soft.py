"""The part of a classic group that no record holds: waiting requests, ids that were handed out, members to expect.

A JoinGroup request waits until all members have joined, a SyncGroup request until the leader has assigned. When the
coordinator moves, this state is lost by design: the clients join again at the next coordinator. Changes of this state
write no records, so a failed append never has to be undone here.

A waiting request leaves through `take_join`, `take_sync` or `answers_to`. Its response goes out with the decision that
answers it (`Decision.answers`), in the order of the log like every other response.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse

__all__ = ["AnswerList", "SoftState"]

# See `ottla.decisions.Answers`; filled in by the steps of one decision.
AnswerList = list[tuple[Deferred[Any], Any]]


class SoftState:
    """State by member id. Dictionaries serve as ordered sets; an empty set takes three times as much memory."""

    __slots__ = ("_joins", "_newcomers", "_syncs", "_unsynced", "has_late_joiner", "pending_ids")

    def __init__(self) -> None:
        self._joins: dict[str, Deferred[JoinGroupResponse]] = {}
        self._syncs: dict[str, Deferred[SyncGroupResponse]] = {}
        # Members in their first rebalance. They have not received their ids yet, so they send no heartbeats.
        self._newcomers: dict[str, None] = {}
        # Members that have to sync before the rebalance timeout ends.
        self._unsynced: dict[str, None] = {}
        # Ids given out with MEMBER_ID_REQUIRED that have not come back yet (KIP-394).
        self.pending_ids: dict[str, None] = {}
        # A member joined during the initial delay, which is extended then (KIP-134).
        self.has_late_joiner = False

    # Joining.

    def expect_id(self, member_id: str) -> None:
        """The id was given out, and its owner has to come back with it."""
        self.pending_ids[member_id] = None

    def wait_for_first_join(self, member_id: str, request: Deferred[JoinGroupResponse], *, is_late: bool) -> None:
        """A new member joins; late if it joins during the initial delay."""
        self.pending_ids.pop(member_id, None)
        self._newcomers[member_id] = None
        self.has_late_joiner = self.has_late_joiner or is_late
        self.wait_for_join(member_id, request)

    def wait_for_join(self, member_id: str, request: Deferred[JoinGroupResponse]) -> None:
        assert member_id not in self._joins, "the earlier JoinGroup request is answered first"
        self._joins[member_id] = request

    def extend_initial_delay(self) -> None:
        """The initial delay begins again because of the members that have joined late so far."""
        self.has_late_joiner = False

    def take_join(self, member_id: str) -> Deferred[JoinGroupResponse] | None:
        return self._joins.pop(member_id, None)

    def has_joined(self, member_id: str) -> bool:
        return member_id in self._joins

    @property
    def join_count(self) -> int:
        """The number of members with a waiting JoinGroup request."""
        return len(self._joins)

    # Syncing.

    def expect_syncs(self, member_ids: Iterable[str]) -> None:
        """A generation begins: all its members have joined and have to sync."""
        assert not self._joins, "every JoinGroup request is answered first"
        self._newcomers.clear()
        self._unsynced = dict.fromkeys(member_ids)

    def expect_no_syncs(self) -> None:
        self._unsynced.clear()

    def on_sync(self, member_id: str) -> None:
        self._unsynced.pop(member_id, None)

    @property
    def unsynced(self) -> Collection[str]:
        return self._unsynced.keys()

    def wait_for_sync(self, member_id: str, request: Deferred[SyncGroupResponse]) -> None:
        # A client that syncs twice has given the first request up.
        self._syncs[member_id] = request

    @property
    def sync_count(self) -> int:
        """The number of members with a waiting SyncGroup request."""
        return len(self._syncs)

    def take_sync(self, member_id: str) -> Deferred[SyncGroupResponse] | None:
        return self._syncs.pop(member_id, None)

    # Members.

    def is_waiting(self, member_id: str) -> bool:
        """True if a request of the member waits, which counts as a sign of life unless the member is new."""
        return member_id not in self._newcomers and (member_id in self._joins or member_id in self._syncs)

    def answers_to(self, member_ids: Iterable[str], code: ErrorCode) -> AnswerList:
        """The answers with this error for the waiting requests of the members. The requests stay until `forget`."""
        answers: AnswerList = []
        for member_id in member_ids:
            join, sync = self._joins.get(member_id), self._syncs.get(member_id)
            if join is not None:
                answers.append((join, JoinGroupResponse(error_code=code)))
            if sync is not None:
                answers.append((sync, SyncGroupResponse(error_code=code)))
        return answers

    def forget(self, member_id: str) -> None:
        """Removes a member, or an id that was handed out. The caller has answered its requests."""
        for table in (self._joins, self._syncs, self._newcomers, self._unsynced, self.pending_ids):
            table.pop(member_id, None)

    # Under test.

    def invariants(self, members: Collection[str]) -> None:
        for table in (self._joins, self._syncs, self._newcomers, self._unsynced):
            assert table.keys() <= set(members), "only members wait and are waited for"
        assert not self.pending_ids.keys() & set(members), "an id that came back is a member"
        requests: list[Deferred[Any]] = [*self._joins.values(), *self._syncs.values()]
        assert not any(request.done for request in requests), "an answered request waits no longer"
