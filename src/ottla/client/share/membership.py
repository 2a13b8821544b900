"""A member of a share group: heartbeats as in a consumer group, but partitions are shared, not owned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.consumer.group_consumer import ConsumerMembership
from ottla.client.consumer.membership import Subscription
from ottla.client.errors import ClientError, RequestUnsupported
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest

if TYPE_CHECKING:
    from ottla.wire.message import Message

__all__ = ["NO_SHARE_GROUPS", "ShareMembership"]

_LEAVE = -1

NO_SHARE_GROUPS = (
    "The cluster has no share groups. They need Apache Kafka 4.2 or newer with the feature share.version=1 "
    "(kafka-features --upgrade --feature share.version=1); use a Consumer with other clusters."
)


class ShareMembership(ConsumerMembership):
    # The topics of the last request that had them.
    _sent_names: list[str] | None = None

    def change(self, topics: tuple[str, ...]) -> None:
        """Subscribes to other topics, with the next heartbeat."""
        self._subscription = Subscription(topics)
        self._names = list(topics)
        self._full = True
        self._now.set()

    def _request(self) -> Message:
        request = ShareGroupHeartbeatRequest(
            group_id=self._group_id, member_id=self._member_id, member_epoch=self._epoch
        )
        if self._full:
            request.rack_id = self._settings.rack or None
            request.subscribed_topic_names = list(self._names)
            self._sent_names = self._names
        return request

    def _leave_request(self) -> Message:
        return ShareGroupHeartbeatRequest(group_id=self._group_id, member_id=self._member_id, member_epoch=_LEAVE)

    async def _heartbeat(self) -> int:
        try:
            interval_ms = await super()._heartbeat()
            # The topics may have changed while the request was in flight.
            self._full = self._full or self._sent_names is not self._names
            return interval_ms
        except RequestUnsupported:
            raise ClientError(NO_SHARE_GROUPS) from None
        except KafkaError as error:
            if error.code == ErrorCode.UNSUPPORTED_VERSION:
                raise ClientError(NO_SHARE_GROUPS) from None
            raise
