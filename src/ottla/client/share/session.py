"""A share session with one broker (KIP-932): its epoch and its partitions.

A session begins with a ShareFetch of epoch 0, which has no acknowledgements. Every later ShareFetch or ShareAcknowledge
has the next epoch, and contains only changes. The session ends with epoch -1, or when the connection breaks; the broker
then releases every record that the session has acquired. So a new session has nothing to acknowledge.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ottla.client.share.acknowledgements import Decisions
from ottla.model.errors import ErrorCode
from ottla.model.ids import TopicPartition, Uuid

__all__ = ["SessionPlan", "ShareSession"]

EPOCH_NEW = 0
EPOCH_FINAL = -1
_EPOCH_MAX = 0x7FFFFFFF

_LOST = (ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH)


class SessionPlan(NamedTuple):
    """The part of a request that depends on the session."""

    epoch: int
    added: list[tuple[Uuid, int]]
    forgotten: list[tuple[Uuid, int]]


class ShareSession:
    """Plan a request, then call `on_answer` or `on_no_answer`, then plan the next. One request at a time."""

    __slots__ = ("_epoch", "_ids")

    def __init__(self) -> None:
        self._epoch = EPOCH_NEW
        # The partitions of the session.
        self._ids: dict[TopicPartition, Uuid] = {}

    @property
    def is_new(self) -> bool:
        """True if the broker has no session: there is nothing that could be acknowledged."""
        return self._epoch == EPOCH_NEW

    def topic_id(self, partition: TopicPartition) -> Uuid | None:
        """The topic id with which the partition is part of the session."""
        return self._ids.get(partition)

    @property
    def names(self) -> dict[Uuid, str]:
        """The topics of the session. Metadata may have lost the name of a deleted topic."""
        return {topic_id: partition.topic for partition, topic_id in self._ids.items()}

    def plan_fetch(self, wanted: Collection[TopicPartition], ids: Mapping[str, Uuid]) -> SessionPlan:
        """A ShareFetch for these partitions. A topic that is missing in metadata keeps its id in the session."""
        known = {} if self.is_new else self._ids
        chosen = {partition: ids.get(partition.topic) or known.get(partition) for partition in wanted}
        self._ids = {partition: topic_id for partition, topic_id in chosen.items() if topic_id}
        added = [
            (topic_id, partition.partition)
            for partition, topic_id in self._ids.items()
            if known.get(partition) != topic_id
        ]
        # A topic that was deleted and created again has a new topic id.
        gone = [
            (topic_id, partition.partition)
            for partition, topic_id in known.items()
            if self._ids.get(partition) != topic_id
        ]
        return SessionPlan(self._epoch, added, gone)

    def plan_acknowledge(self, *, final: bool = False) -> int:
        """The epoch of a ShareAcknowledge."""
        assert not self.is_new, "a session begins with a fetch"
        return EPOCH_FINAL if final else self._epoch

    def split(self, decisions: Decisions) -> tuple[Decisions, Decisions]:
        """The decisions that a request may contain, and those whose records the broker has released."""
        current: Decisions = {}
        void: Decisions = {}
        for partition, by_offset in decisions.items():
            lives = not self.is_new and partition in self._ids
            (current if lives else void)[partition] = by_offset
        return current, void

    def on_answer(self, error_code: int) -> bool:
        """Processes a response. Returns False if the broker has no such session: the next request begins a new one."""
        if error_code in _LOST or (error_code and self.is_new):
            self.on_no_answer()
            return error_code not in _LOST
        self._epoch = 1 if self._epoch == _EPOCH_MAX else self._epoch + 1
        return True

    def on_no_answer(self) -> None:
        """The session is lost: the broker may or may not have processed the request."""
        self._epoch = EPOCH_NEW
        self._ids = {}
