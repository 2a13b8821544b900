"""A fetch session with one broker (KIP-227): after a full request, requests contain only changes.

A session begins with a full request of epoch 0. The response gives its id; id 0 means that the broker has no room for a
session, and every request is full. Later requests have the next epoch each, and contain only partitions that are new,
whose fetch offset has moved, or that are to be forgotten. The next request is full again when both sides may disagree:
after a missing response, an unknown session or epoch, or a switch from topic names to topic ids. It contains the id of
the old session, so that the broker closes it.
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


class _SessionPartition(NamedTuple):
    """The broker's state of one partition."""

    topic_id: Uuid
    fetch_offset: int
    leader_epoch: int
    max_bytes: int


class FetchSession:
    """The session with one broker. `plan` a request, then call `accepts` or `on_no_answer`, then plan the next."""

    __slots__ = ("_epoch", "_id", "_partitions", "_uses_ids")

    def __init__(self) -> None:
        self._id = NO_SESSION_ID
        self._epoch = EPOCH_FULL
        self._uses_ids = False
        self._partitions: dict[TopicPartition, _SessionPartition] = {}

    def plan(self, wanted: Mapping[TopicPartition, FetchPartition], ids: Mapping[str, Uuid] | None) -> FetchPlan:
        """The next request, for exactly these partitions. Topics go by name if `ids` is None."""
        if self._uses_ids != (ids is not None):
            self._uses_ids = ids is not None
            self._restart()
        previous = self._partitions
        self._partitions = {
            partition: _SessionPartition(
                Uuid.ZERO if ids is None else ids[partition.topic],
                fetch.fetch_offset,
                fetch.current_leader_epoch,
                fetch.partition_max_bytes,
            )
            for partition, fetch in wanted.items()
        }
        added: defaultdict[tuple[str, Uuid], list[FetchPartition]] = defaultdict(list)
        for partition, state in self._partitions.items():
            if previous.get(partition) != state:
                added[partition.topic, state.topic_id].append(wanted[partition])
        gone: defaultdict[tuple[str, Uuid], list[int]] = defaultdict(list)
        for partition, state in previous.items():
            current = self._partitions.get(partition)
            # A topic that was deleted and created again has a new topic id.
            if current is None or current.topic_id != state.topic_id:
                gone[partition.topic, state.topic_id].append(partition.partition)
        return FetchPlan(
            self._id,
            self._epoch,
            [
                FetchTopic(topic=name, topic_id=topic_id, partitions=partitions)
                for (name, topic_id), partitions in added.items()
            ],
            [
                ForgottenTopic(topic=name, topic_id=topic_id, partitions=numbers)
                for (name, topic_id), numbers in gone.items()
            ],
        )

    def accepts(self, *, error_code: int, session_id: int) -> bool:
        """Processes a response. Returns False if the session must begin again: plan and send a new request."""
        was_full = self._epoch == EPOCH_FULL
        if error_code:
            if error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self._id = NO_SESSION_ID
            self._restart()
            return was_full or error_code not in _SESSION_ERRORS
        if was_full:
            self._id = session_id
        if session_id == NO_SESSION_ID:
            self._id = NO_SESSION_ID
            self._restart()
        else:
            self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1
        return True

    def on_no_answer(self) -> None:
        """No response came: the broker's next epoch is unknown."""
        self._restart()

    def _restart(self) -> None:
        self._epoch = EPOCH_FULL
        self._partitions = {}

    def final(self) -> FetchPlan | None:
        """The request that closes the session; None if there is no session."""
        return None if self._id == NO_SESSION_ID else FetchPlan(self._id, EPOCH_FINAL, [], [])
