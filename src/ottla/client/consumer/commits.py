"""Commits of a consumer: awaited, in the background, and automatic.

A commit in the background is not retried: a later commit covers the same partitions, and a retry could overwrite it.
Awaited commits follow the pending ones, so that the last commit of a partition is the last one that was asked for.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ottla.client.admin.groups import CommittedOffset
from ottla.client.cluster import Cluster
from ottla.client.consumer.interceptors import ConsumerInterceptors
from ottla.client.consumer.membership import Identity, Membership
from ottla.client.consumer.settings import ConsumerSettings
from ottla.client.errors import ClientError, check
from ottla.client.leaders import by_topic
from ottla.client.measures import ConsumerMeasures
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)

if TYPE_CHECKING:
    Offsets = Mapping[TopicPartition, CommittedOffset]

__all__ = ["Commits", "OnCommit", "as_commits"]

logger = logging.getLogger(__name__)

_NAMES_VERSION_MAX = 9
# An automatic commit does not hold up a poll for longer. The last one before partitions are given up also waits for the
# answer to a request that was sent: partitions are given up on another connection, and the coordinator refuses a commit
# that it sees after that.
_QUIET_SECONDS_MAX = 5.0

OnCommit = Callable[[Mapping[TopicPartition, CommittedOffset], Exception | None], object]
"""Gets the offsets of a commit in the background, and its error."""


class Commits:
    def __init__(
        self,
        cluster: Cluster,
        settings: ConsumerSettings,
        measures: ConsumerMeasures,
        interceptors: ConsumerInterceptors,
        committable: Callable[[], dict[TopicPartition, CommittedOffset]],
    ) -> None:
        self._cluster = cluster
        self._settings = settings
        self._measures = measures
        self._interceptors = interceptors
        self._committable = committable
        self._pending: set[asyncio.Task[None]] = set()
        self._due_at = 0.0
        # The number of records that were handed out before the last automatic commit.
        self._covered = 0
        # Done when the request of an awaited commit has its answer; None if there is no request in flight.
        self._answered: asyncio.Future[None] | None = None
        self.membership: Membership | None = None

    async def commit(self, commits: Offsets) -> None:
        """Commits and retries until the time-out of a call. Raises KafkaError or ClientError."""
        self._check_group()
        await self.wait_pending()
        if commits:
            await self._measured(commits, lambda: self._cluster.retry(lambda: self._send(commits), again=_is_repeated))

    def commit_async(self, commits: Offsets, on_commit: OnCommit | None) -> None:
        """Commits in the background, once."""
        self._check_group()

        async def commit_once() -> None:
            error: Exception | None = None
            try:
                await self._measured(commits, lambda: self._send_once(commits))
            except (KafkaError, ClientError) as failure:
                error = failure
            if on_commit is not None:
                on_commit(commits, error)

        task = asyncio.ensure_future(commit_once())
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    @property
    def next_at(self) -> float:
        """When the records that were handed out since the last automatic commit are due; infinity without any."""
        return self._due_at if self._is_automatic and self._measures.records != self._covered else math.inf

    async def commit_when_due(self) -> None:
        if not self._is_automatic:
            return
        now = asyncio.get_running_loop().time()
        interval = self._settings.auto_commit_interval_ms / 1000
        if self._due_at == 0.0:
            self._due_at = now + interval
        elif now >= self._due_at:
            self._due_at = now + interval
            await self.commit_quietly()

    async def commit_last(self) -> None:
        """Commits automatically before partitions are given up. After a failure their records may be read again."""
        if not self._is_automatic:
            return
        # The pending commits are awaited in any case, and must not use up the time of the last commit.
        await self.wait_pending()
        self._covered = self._measures.records
        error = await self._try_last()
        if error is not None:
            logger.warning(
                "The last commit of group %s failed, so records may be read again: %s",
                self._settings.group_id,
                str(error) or f"no answer within {_QUIET_SECONDS_MAX:g} s",
            )

    async def _try_last(self) -> Exception | None:
        task = asyncio.ensure_future(self.commit(self._committable()))
        try:
            await asyncio.wait({task}, timeout=_QUIET_SECONDS_MAX)
            while not task.done() and self._answered is not None:
                await asyncio.wait({task, self._answered}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            task.cancel()
            await asyncio.wait({task})
        if task.cancelled():
            return TimeoutError()
        error = task.exception()
        if error is not None and not isinstance(error, KafkaError | ClientError):
            raise error
        return error

    async def commit_quietly(self) -> Exception | None:
        """Commits automatically. After a failure, which is returned, the next commit covers the same offsets."""
        if not self._is_automatic:
            return None
        self._covered = self._measures.records
        try:
            async with asyncio.timeout(_QUIET_SECONDS_MAX):
                await self.commit(self._committable())
        except (KafkaError, ClientError, TimeoutError) as error:
            return error
        return None

    async def wait_pending(self) -> None:
        """Waits for the commits in the background."""
        if self._pending:
            await asyncio.wait(set(self._pending))

    @property
    def _is_automatic(self) -> bool:
        return self._settings.auto_commit and self._settings.group_id is not None

    def _check_group(self) -> None:
        if self._settings.group_id is None:
            raise ClientError("Committing offsets needs a group: set group.id (--group on the command line).")

    async def _measured(self, commits: Offsets, work: Callable[[], object]) -> None:
        begun = asyncio.get_running_loop().time()
        self._measures.commits += 1
        try:
            await work()  # type: ignore[misc]
        except BaseException:
            self._measures.failed_commits += 1
            raise
        finally:
            self._measures.commit_seconds += asyncio.get_running_loop().time() - begun
        self._interceptors.on_commit(commits)

    async def _send(self, commits: Offsets) -> None:
        """Sends once; `_answered` is set while the answer is awaited."""

        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_sent() -> None:
            self._answered = answered

        try:
            await self._send_once(commits, on_sent)
        finally:
            answered.set_result(None)
            if self._answered is answered:
                self._answered = None

    async def _send_once(self, commits: Offsets, on_sent: Callable[[], None] = lambda: None) -> None:
        assert self._settings.group_id is not None
        if self.membership is not None and not self.membership.is_member:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, "This consumer is not a member of its group.")
        member = Identity("", -1, None) if self.membership is None else self.membership.identity
        request = OffsetCommitRequest(
            group_id=self._settings.group_id,
            generation_id_or_member_epoch=member.generation,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[_commit_of(number, commits[TopicPartition(topic, number)]) for number in numbers],
                )
                for topic, numbers in by_topic(commits).items()
            ],
        )

        def send() -> OffsetCommitRequest:
            on_sent()
            return request

        def codes(answer: OffsetCommitResponse) -> list[int]:
            return [partition.error_code for topic in answer.topics for partition in topic.partitions]

        response: OffsetCommitResponse = await self._cluster.ask_coordinator(
            self._cluster.GROUP, self._settings.group_id, send, codes, version_max=_NAMES_VERSION_MAX, once=True
        )
        for code in codes(response):
            check(code)


def as_commits(offsets: Mapping[TopicPartition, int | CommittedOffset]) -> dict[TopicPartition, CommittedOffset]:
    return {
        partition: value if isinstance(value, CommittedOffset) else CommittedOffset(value)
        for partition, value in offsets.items()
    }


def _commit_of(number: int, commit: CommittedOffset) -> OffsetCommitRequestPartition:
    return OffsetCommitRequestPartition(
        partition_index=number,
        committed_offset=commit.offset,
        committed_leader_epoch=commit.leader_epoch,
        committed_metadata=commit.metadata,
    )


def _is_repeated(error: KafkaError) -> bool:
    """True for a stale member epoch, which the next heartbeat renews (KIP-848)."""
    return error.code.retriable or error.code == ErrorCode.STALE_MEMBER_EPOCH
