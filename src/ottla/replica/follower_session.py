"""A follower's half of an incremental fetch session (KIP-227); the leader's half is in `fetch_sessions`.

The first request of a session lists everything. Afterwards only what changed is listed: partitions whose position
moved, that are new, or that are to be left out. `FollowerSession` keeps count of that; it holds no state of partitions
beyond their keys.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.wire.messages.fetch import FetchRequest, FetchResponse, ForgottenTopic

__all__ = ["FollowerSession", "PartitionKey"]

PartitionKey = tuple[Uuid, int]

NO_SESSION = 0
EPOCH_INITIAL = 0
_EPOCH_MAX = 0x7FFFFFFF

T = TypeVar("T")


class FollowerSession(Generic[T]):
    """What the leader has been told, and what it has still to be told."""

    __slots__ = ("_changed", "_epoch", "_forgotten", "_id", "_members")

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = EPOCH_INITIAL
        self._members: dict[PartitionKey, T] = {}
        self._changed: dict[PartitionKey, T] = {}
        self._forgotten: set[PartitionKey] = set()

    def __len__(self) -> int:
        return len(self._members)

    @property
    def is_incremental(self) -> bool:
        return self._epoch != EPOCH_INITIAL

    def set(self, key: PartitionKey, value: T) -> None:
        """The partition is to be fetched, from a position that the leader does not know yet."""
        self._members[key] = value
        self._changed[key] = value
        self._forgotten.discard(key)

    def remove(self, key: PartitionKey) -> None:
        """The partition is not to be fetched for now."""
        if self._members.pop(key, None) is not None:
            self._changed.pop(key, None)
            self._forgotten.add(key)

    def get(self, key: PartitionKey) -> T | None:
        return self._members.get(key)

    def restart(self) -> None:
        """The next request lists everything; a session that is still there is closed by it."""
        self._epoch = EPOCH_INITIAL

    def begin_request(self, request: FetchRequest) -> Iterable[T]:
        """Fills in the session's fields, and returns which partitions the request has to list."""
        request.session_id = self._id
        request.session_epoch = self._epoch
        listed = self._changed if self.is_incremental else self._members
        if self.is_incremental and self._forgotten:
            topics: dict[Uuid, ForgottenTopic] = {}
            for topic_id, index in sorted(self._forgotten, key=lambda key: (key[0].bytes, key[1])):
                topic = topics.get(topic_id)
                if topic is None:
                    topic = topics[topic_id] = ForgottenTopic(topic_id=topic_id)
                topic.partitions.append(index)
            request.forgotten_topics_data = list(topics.values())
        self._forgotten = set()
        self._changed = {}
        return list(listed.values())

    def end_request(self, response: FetchResponse) -> bool:
        """Takes note of the answer; False when the leader does not know the session, and the request has to be made
        anew.
        """
        if response.error_code != ErrorCode.NONE:
            if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._id = NO_SESSION
            self.restart()
            return False
        if response.session_id == NO_SESSION:
            # No room for a session there, or it went empty: every request lists everything.
            self._id = NO_SESSION
            self.restart()
        else:
            self._id = response.session_id
            self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1
        return True
