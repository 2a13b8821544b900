"""ShareFetch and ShareAcknowledge requests from plans and decisions."""

from __future__ import annotations

from collections import defaultdict

from ottla.client.share.acknowledgements import Acknowledge, Decisions, ranges
from ottla.client.share.session import SessionPlan, ShareSession
from ottla.client.share.settings import ShareSettings
from ottla.model.ids import TopicPartition, Uuid
from ottla.wire.messages import share_acknowledge, share_fetch
from ottla.wire.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from ottla.wire.messages.share_fetch import FetchPartition, FetchTopic, ForgottenTopic, ShareFetchRequest

__all__ = ["acknowledge_request", "fetch_request", "renews"]

_BATCH_OPTIMIZED = 0
_RECORD_LIMIT = 1


def renews(decisions: Decisions) -> bool:
    """True if a lock is to be renewed, which only a request without a fetch can do."""
    return any(Acknowledge.RENEW in by_offset.values() for by_offset in decisions.values())


def fetch_request(
    settings: ShareSettings, member_id: str, session: ShareSession, plan: SessionPlan, decisions: Decisions
) -> ShareFetchRequest:
    topics: defaultdict[Uuid, dict[int, FetchPartition]] = defaultdict(dict)
    for topic_id, number in plan.added:
        topics[topic_id][number] = FetchPartition(partition_index=number, acknowledgement_batches=[])
    for partition, by_offset in decisions.items():
        topic_id = _topic_id(session, partition)
        topics[topic_id][partition.partition] = FetchPartition(
            partition_index=partition.partition,
            acknowledgement_batches=[
                share_fetch.AcknowledgementBatch(
                    first_offset=offset_range.first, last_offset=offset_range.last, acknowledge_types=offset_range.types
                )
                for offset_range in ranges(by_offset)
            ],
        )
    forgotten: defaultdict[Uuid, list[int]] = defaultdict(list)
    for topic_id, number in plan.forgotten:
        forgotten[topic_id].append(number)
    return ShareFetchRequest(
        group_id=settings.group_id,
        member_id=member_id,
        share_session_epoch=plan.epoch,
        max_wait_ms=settings.fetch_max_wait_ms,
        min_bytes=settings.fetch_min_bytes,
        max_bytes=settings.fetch_max_bytes,
        max_records=settings.max_poll_records,
        batch_size=settings.max_poll_records,
        share_acquire_mode=_RECORD_LIMIT if settings.limits_records else _BATCH_OPTIMIZED,
        topics=[
            FetchTopic(topic_id=topic_id, partitions=list(partitions.values()))
            for topic_id, partitions in topics.items()
        ],
        forgotten_topics_data=[
            ForgottenTopic(topic_id=topic_id, partitions=numbers) for topic_id, numbers in forgotten.items()
        ],
    )


def acknowledge_request(
    settings: ShareSettings, member_id: str, session: ShareSession, decisions: Decisions, *, final: bool = False
) -> ShareAcknowledgeRequest:
    topics: defaultdict[Uuid, list[AcknowledgePartition]] = defaultdict(list)
    for partition, by_offset in decisions.items():
        topics[_topic_id(session, partition)].append(
            AcknowledgePartition(
                partition_index=partition.partition,
                acknowledgement_batches=[
                    share_acknowledge.AcknowledgementBatch(
                        first_offset=offset_range.first,
                        last_offset=offset_range.last,
                        acknowledge_types=offset_range.types,
                    )
                    for offset_range in ranges(by_offset)
                ],
            )
        )
    return ShareAcknowledgeRequest(
        group_id=settings.group_id,
        member_id=member_id,
        share_session_epoch=session.plan_acknowledge(final=final),
        is_renew_ack=renews(decisions),
        topics=[AcknowledgeTopic(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics.items()],
    )


def _topic_id(session: ShareSession, partition: TopicPartition) -> Uuid:
    topic_id = session.topic_id(partition)
    assert topic_id is not None, f"{partition} is not part of the session"
    return topic_id
