"""Reports the log directories of this broker's replicas to the controller (AssignReplicasToDirs, KIP-858).

The controller knows the directory of a broker that has only one. With several directories the broker chooses, and the
controller must know its choice to know which partitions a failed directory takes offline. Reports that come together
share a request, one request is under way at a time, and failed reports are sent again a little later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    RequestDirectoryData,
    RequestPartitionData,
    RequestTopicData,
)
from ottla.wire.peers import PeerUnreachable

if TYPE_CHECKING:
    from ottla.model.deferred import Deferred
    from ottla.model.ports import Scheduler, Timer
    from ottla.replica.views import ControllerChannel, PartitionView

__all__ = ["LOST", "DirectoryReporter"]

logger = logging.getLogger("ottla.replica.directory_reporter")

LOST = Uuid(bytes(15) + b"\x01")
"""The id of KIP-858 for a replica in no working log directory."""
RETRY_SECONDS = 1.0
PARTITIONS_PER_REQUEST_MAX = 2_000

# Errors of a replica that the controller does not know, so there is nothing to report.
_POINTLESS = frozenset(
    (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_LEADER_OR_FOLLOWER)
)


class DirectoryReporter:
    """Reports directories. `report` is called for every replica whose directory is missing in the metadata."""

    def __init__(
        self, *, node_id: int, scheduler: Scheduler, controller: ControllerChannel, broker_epoch: Callable[[], int]
    ) -> None:
        self._node_id = node_id
        self._scheduler = scheduler
        self._controller = controller
        self._broker_epoch = broker_epoch
        self._waiting: dict[tuple[Uuid, int], Uuid] = {}
        self._is_asking = False
        self._is_closed = False
        self._timer: Timer | None = None
        self.is_supported = True
        """False if the cluster's metadata.version does not support directory assignments."""

    def on_features_changed(self) -> None:
        """A new metadata.version may support directory assignments."""
        self.is_supported = True

    def report(self, topic_id: Uuid, partition: int, directory_id: Uuid) -> None:
        self._waiting[(topic_id, partition)] = directory_id
        self._plan(0)

    def report_lost(self, topic_id: Uuid, partition: int, view: PartitionView) -> None:
        """The replica's log cannot be used: the controller elects another leader and removes it from the in-sync set.

        Not reported if no other replica is in sync: then this log may be the only one with all records, and the
        controller would take the replica for an empty one when it is repaired.
        """
        if view.directory(self._node_id) != LOST and any(replica != self._node_id for replica in view.isr):
            self.report(topic_id, partition, LOST)

    def close(self) -> None:
        self._is_closed = True
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _plan(self, seconds: float) -> None:
        if not self._is_asking and not self._is_closed and self._timer is None:
            self._timer = self._scheduler.call_later(seconds, self._ask)

    def _ask(self) -> None:
        self._timer = None
        if self._broker_epoch() < 0:
            self._plan(RETRY_SECONDS)
            return
        assignments = dict(list(self._waiting.items())[:PARTITIONS_PER_REQUEST_MAX])
        if assignments:
            self._is_asking = True
            answer = self._controller.ask(self._request(assignments))
            answer.when_done(lambda answer: self._on_answer(assignments, answer))

    def _request(self, assignments: dict[tuple[Uuid, int], Uuid]) -> AssignReplicasToDirsRequest:
        directories: dict[Uuid, RequestDirectoryData] = {}
        topics: dict[tuple[Uuid, Uuid], RequestTopicData] = {}
        for (topic_id, partition), directory_id in assignments.items():
            directory = directories.get(directory_id)
            if directory is None:
                directory = directories[directory_id] = RequestDirectoryData(id=directory_id)
            topic = topics.get((directory_id, topic_id))
            if topic is None:
                topic = topics[(directory_id, topic_id)] = RequestTopicData(topic_id=topic_id)
                directory.topics.append(topic)
            topic.partitions.append(RequestPartitionData(partition_index=partition))
        return AssignReplicasToDirsRequest(
            broker_id=self._node_id, broker_epoch=self._broker_epoch(), directories=list(directories.values())
        )

    def _on_answer(
        self, assignments: dict[tuple[Uuid, int], Uuid], answer: Deferred[AssignReplicasToDirsResponse]
    ) -> None:
        self._is_asking = False
        error = answer.error
        if isinstance(error, KafkaError) and error.code == ErrorCode.UNSUPPORTED_VERSION:
            self.is_supported = False
            self._forget(assignments)
            return
        if isinstance(error, (KafkaError, PeerUnreachable)):
            logger.info("AssignReplicasToDirs failed and will be retried: %s", error)
            self._plan(RETRY_SECONDS)
            return
        settled = {
            (topic.topic_id, partition.partition_index)
            for directory in answer.result().directories
            for topic in directory.topics
            for partition in topic.partitions
            if partition.error_code == ErrorCode.NONE or partition.error_code in _POINTLESS
        }
        self._forget({replica: directory_id for replica, directory_id in assignments.items() if replica in settled})
        if self._waiting:
            self._plan(RETRY_SECONDS if len(settled) < len(assignments) else 0)

    def _forget(self, assignments: dict[tuple[Uuid, int], Uuid]) -> None:
        for replica, directory_id in assignments.items():
            if self._waiting.get(replica) == directory_id:
                del self._waiting[replica]
