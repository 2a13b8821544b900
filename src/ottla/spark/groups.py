"""A query seen as a consumer group: what it has done is committed as the group's offsets, so that every tool shows lag.

The group has no members. Spark alone decides where a query goes on (its checkpoint says); the group only shows it, and
may say where a query without a checkpoint begins (`startingOffsets=committed`). A group that has members belongs
to consumers: the brokers refuse commits for it, and so does the query, at its first batch, in words that say so.

Commits that fail because the cluster is away are not worth a query's life: they are made up for by the next.
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

# A batch waits for its commit; a cluster that is away for longer is told about the next one.
_TIMEOUT_MS = 10_000
_HAS_MEMBERS = (
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.STALE_MEMBER_EPOCH,
)


class GroupInUseError(Exception):
    """The group has members, so that its offsets are theirs."""


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
        found = self._client.run(
            admin.connections.retry(lambda: admin.groups.offsets(self._group_id, wanted, stable=True))
        )
        return {one: committed.offset for one, committed in found.items()}

    def done(self, offset: SourceOffset) -> None:
        """Commits what has changed since the last commit that succeeded."""
        changed = {one: number for one, number in offset.offsets.items() if self._committed.get(one) != number}
        if not changed:
            return
        try:
            answers = self._client.run(self._client.admin.groups.alter_offsets(self._group_id, changed))
        except ClientError as error:
            log.warning("offsets of group %r could not be committed, the next batch does it: %s", self._group_id, error)
            return
        except KafkaError as error:
            self._refused(error)
            return
        for one, answer in answers.items():
            if answer is None:
                self._committed[one] = changed[one]
            elif answer.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                # The topic is gone: what that means is the source's decision.
                log.warning("group %r: %s is gone, its offset was not committed", self._group_id, one)
            else:
                self._refused(answer)

    def stop(self) -> None:
        """Nothing is held: the group stays as it is, for tools to show and for the next start."""

    def _refused(self, error: KafkaError) -> None:
        if error.code in _HAS_MEMBERS:
            raise GroupInUseError(
                f"Group {self._group_id!r} has active members, so a query cannot commit offsets for it. "
                f"Give the query a group.id of its own, or stop the consumers of that group."
            ) from error
        if error.code.retriable:
            log.warning("offsets of group %r were not committed: %s", self._group_id, error.message)
            return
        raise error
