"""What one broker remembers of our fetches (KIP-227): after a first one in full, only changes are sent.

A session begins with a full request of epoch 0 and has the id that the answer gives it; 0 means that the broker has no
room, and every request stays full. From then on each request has the epoch after the last one's, and names only
partitions that are new, that are asked for from elsewhere, or that are to be forgotten. Whenever the two sides may not
agree any more - an answer that never came, a session or an epoch that the broker does not know, topics by id after
topics by name - the next request is full again. It then names the old session, so that the broker lets go of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition, Uuid
from ottla.wire.messages.fetch import FetchPartition, FetchTopic, ForgottenTopic

__all__ = ["FetchPlan", "FetchSession"]

NO_SESSION_ID = 0
EPOCH_FULL = 0
EPOCH_FINAL = -1
_EPOCH_MAX = 0x7FFFFFFF

_SESSION_ERRORS = frozenset(
    (
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    )
)


class FetchPlan(NamedTuple):
    """The part of a request that depends on the session."""

    session_id: int
    epoch: int
    topics: list[FetchTopic]
    forgotten: list[ForgottenTopic]


class _Told(NamedTuple):
    """What the broker knows about one partition."""

    topic_id: Uuid
    fetch_offset: int
    leader_epoch: int
    max_bytes: int


class FetchSession:
    """The session with one broker; requests follow each other, `plan`, then `accepts` or `on_no_answer`."""

    __slots__ = ("_epoch", "_id", "_told", "_uses_ids")

    def __init__(self) -> None:
        self._id = NO_SESSION_ID
        self._epoch = EPOCH_FULL
        self._uses_ids = False
        self._told: dict[TopicPartition, _Told] = {}

    def plan(self, wanted: Mapping[TopicPartition, FetchPartition], ids: Mapping[str, Uuid] | None) -> FetchPlan:
        """The next request, for exactly these partitions; topics go by name where there are no `ids`."""
        if self._uses_ids != (ids is not None):
            self._uses_ids = ids is not None
            self._begin_anew()
        known = self._told
        self._told = {
            one: _Told(
                Uuid.ZERO if ids is None else ids[one.topic],
                asked.fetch_offset,
                asked.current_leader_epoch,
                asked.partition_max_bytes,
            )
            for one, asked in wanted.items()
        }
        added: defaultdict[tuple[str, Uuid], list[FetchPartition]] = defaultdict(list)
        for one, told in self._told.items():
            if known.get(one) != told:
                added[one.topic, told.topic_id].append(wanted[one])
        gone: defaultdict[tuple[str, Uuid], list[int]] = defaultdict(list)
        for one, told in known.items():
            still = self._told.get(one)
            # A topic that was deleted and created again is another one with the same name.
            if still is None or still.topic_id != told.topic_id:
                gone[one.topic, told.topic_id].append(one.partition)
        return FetchPlan(
            self._id,
            self._epoch,
            [FetchTopic(topic=name, topic_id=topic_id, partitions=some) for (name, topic_id), some in added.items()],
            [ForgottenTopic(topic=name, topic_id=topic_id, partitions=some) for (name, topic_id), some in gone.items()],
        )

    def accepts(self, *, error_code: int, session_id: int) -> bool:
        """Takes over an answer; False where it only says that the session has to begin anew: then ask again."""
        was_full = self._epoch == EPOCH_FULL
        if error_code:
            if error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._id = NO_SESSION_ID
            self._begin_anew()
            return was_full or error_code not in _SESSION_ERRORS
        if was_full:
            self._id = session_id
        if session_id == NO_SESSION_ID:
            self._id = NO_SESSION_ID
            self._begin_anew()
        else:
            self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1
        return True

    def on_no_answer(self) -> None:
        """The broker may have seen the request or not, so nobody knows which epoch is next."""
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._epoch = EPOCH_FULL
        self._told = {}

    def final(self) -> FetchPlan | None:
        """The request that ends the session; None where there is none."""
        return None if self._id == NO_SESSION_ID else FetchPlan(self._id, EPOCH_FINAL, [], [])
