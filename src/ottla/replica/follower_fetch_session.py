"""The follower's side of an incremental fetch session (KIP-227); the leader's side is `fetch_sessions`.

The first request of a session lists every partition. Later requests list only the partitions that changed: new ones,
ones with a new position, and ones that the leader shall forget. `FollowerFetchSession` tracks these changes. It holds
nothing about a partition beyond its key.

A request introduces a few hundred partitions at most: listing a hundred thousand at once would block both brokers
for a second. The remaining partitions follow in the next requests. Only partitions that the leader does not know yet
may wait like this; for a known partition the leader would send the same records again.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Generic, TypeVar

from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.wire.follower_fetch import FollowerFetchResponse
from ottla.wire.messages.fetch import FetchResponse, ForgottenTopic

__all__ = ["NEW_IN_REQUEST_MAX", "FollowerFetchSession", "PartitionKey"]

# (bytes of the topic id, partition): a lookup by `Uuid` would call Python code.
PartitionKey = tuple[bytes, int]

NO_SESSION = 0
EPOCH_INITIAL = 0
_EPOCH_MAX = 0x7FFFFFFF

# New partitions in one request. They take the leader up to 30 microseconds each, if they come back into in-sync sets.
NEW_IN_REQUEST_MAX = 300

T = TypeVar("T")


class FollowerFetchSession(Generic[T]):
    """The partitions in the leader's session, and the partitions that still have to be sent."""

    __slots__ = ("_changed", "_forgotten", "_is_refused", "_members", "_untold", "epoch", "id")

    def __init__(self) -> None:
        self.id = NO_SESSION
        self.epoch = EPOCH_INITIAL
        self._members: dict[PartitionKey, T] = {}
        # Changed and forgotten partitions, which the next request lists.
        self._changed: dict[PartitionKey, T] = {}
        self._forgotten: set[PartitionKey] = set()
        # New partitions that no request has listed yet, in their order of arrival.
        self._untold: dict[PartitionKey, T] = {}
        # True if the leader has refused a session: then every request lists every partition.
        self._is_refused = False

    def __len__(self) -> int:
        return len(self._members)

    @property
    def is_incremental(self) -> bool:
        return self.epoch != EPOCH_INITIAL

    @property
    def has_untold(self) -> bool:
        """True if new partitions remain for the next request."""
        return bool(self._untold)

    def set(self, key: PartitionKey, value: T) -> None:
        """The partition is fetched, from a position that the next request sends."""
        if not self._untold and self._members.get(key) is value:
            # The usual case: a known partition has a new position.
            self._changed[key] = value
            return
        is_told = key in self._members and key not in self._untold
        self._members[key] = value
        (self._changed if is_told else self._untold)[key] = value

    def remove(self, key: PartitionKey) -> None:
        """The partition is not fetched for now."""
        if self._members.pop(key, None) is not None:
            self._changed.pop(key, None)
            if self._untold.pop(key, None) is None:
                self._forgotten.add(key)

    def get(self, key: PartitionKey) -> T | None:
        return self._members.get(key)

    def restart(self) -> None:
        """The next request begins a new session, and closes the current one."""
        self.epoch = EPOCH_INITIAL

    def begin_request(self) -> tuple[list[T], list[ForgottenTopic]]:
        """The partitions that a request with the session's id and epoch has to list, and those to forget."""
        forgotten: list[ForgottenTopic] = []
        if self.is_incremental:
            listed = self._changed
        else:
            listed = {}
            self._untold = {**self._untold, **self._members}
        if self._untold:
            listed.update(self._take_untold())
        if self.is_incremental and self._forgotten:
            # A partition that was removed and added again is listed, not forgotten.
            forgotten = _by_topic(self._forgotten - listed.keys())
        if self._forgotten:
            self._forgotten = set()
        self._changed = {}
        return list(listed.values()), forgotten

    def _take_untold(self) -> dict[PartitionKey, T]:
        if self._is_refused or len(self._untold) <= NEW_IN_REQUEST_MAX:
            taken, self._untold = self._untold, {}
        else:
            taken = dict(islice(self._untold.items(), NEW_IN_REQUEST_MAX))
            for key in taken:
                del self._untold[key]
        return taken

    def end_request(self, response: FetchResponse | FollowerFetchResponse) -> bool:
        """Applies the response. Returns False if the leader does not know the session: repeat the request then."""
        if response.error_code:
            if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self.id = NO_SESSION
            self.restart()
            return False
        if response.session_id == NO_SESSION:
            # The leader has no room for a session: every request lists every partition.
            self.id = NO_SESSION
            self._is_refused = True
            self.restart()
        else:
            self._is_refused = False
            self.id = response.session_id
            self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1
        return True


def _by_topic(keys: Iterable[PartitionKey]) -> list[ForgottenTopic]:
    topics: dict[bytes, ForgottenTopic] = {}
    for topic_id, index in sorted(keys):
        topic = topics.get(topic_id)
        if topic is None:
            topic = topics[topic_id] = ForgottenTopic(topic_id=Uuid(topic_id))
        topic.partitions.append(index)
    return list(topics.values())
