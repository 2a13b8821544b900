"""A query as a consumer group: its progress is committed as offsets of the group, so that tools show its lag.

The group has no members. A query always continues from its checkpoint; the group only shows the progress, and may give
the start of a query without a checkpoint (`startingOffsets=committed`). A group with members belongs to consumers:
brokers refuse commits for it, and the query fails at its first batch with a message about it.

A commit that fails because the cluster is unavailable does not fail the query: the next commit covers it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ottla.client.errors import ClientError
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.spark.client import client_of
from ottla.spark.options import OptionError, SourceOptions
from ottla.spark.source.offsets import SourceOffset

__all__ = ["GroupHook", "GroupInUseError"]

log = logging.getLogger(__name__)

# A batch waits this long for its commit; the next batch repeats a failed one.
_TIMEOUT_MS = 10_000
_HAS_MEMBERS = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.STALE_MEMBER_EPOCH,
)


class GroupInUseError(Exception):
    """The group has members, which own its offsets."""


class GroupHook:
    """Commits for one query."""

    def __init__(self, options: SourceOptions) -> None:
        if options.group_id is None:
            raise OptionError("Option 'group.id' is missing.")
        self._group_id = options.group_id
        self._client = client_of(replace(options.client, api_timeout_ms=_TIMEOUT_MS))
        self._committed: dict[TopicPartition, int] = {}

    def starting(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        admin = self._client.admin
        wanted = list(partitions)
        offsets = self._client.run(
            admin.connections.retry(lambda: admin.groups.offsets(self._group_id, wanted, stable=True))
        )
        return {partition: committed.offset for partition, committed in offsets.items()}

    def done(self, offset: SourceOffset) -> None:
        """Commits the offsets that have changed since the last successful commit."""
        changed = {
            partition: number
            for partition, number in offset.offsets.items()
            if self._committed.get(partition) != number
        }
        if not changed:
            return
        try:
            answers = self._client.run(self._client.admin.groups.alter_offsets(self._group_id, changed))
        except ClientError as error:
            log.warning("Committing offsets of group %r failed; the next batch repeats it: %s", self._group_id, error)
            return
        except KafkaError as error:
            self._refused(error)
            return
        for partition, answer in answers.items():
            if answer is None:
                self._committed[partition] = changed[partition]
            elif answer.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                # The topic was deleted; the source handles that.
                log.warning("Group %r: %s was deleted, its offset was not committed", self._group_id, partition)
            else:
                self._refused(answer)

    def stop(self) -> None:
        """Nothing to release: the group stays, for tools and for the next start of the query."""

    def _refused(self, error: KafkaError) -> None:
        if error.code in _HAS_MEMBERS:
            raise GroupInUseError(
                f"Group {self._group_id!r} has active members, so a query cannot commit offsets for it. "
                f"Give the query a group.id of its own, or stop the consumers of that group."
            ) from error
        if error.code.retriable:
            log.warning("Offsets of group %r were not committed: %s", self._group_id, error.message)
            return
        raise error
