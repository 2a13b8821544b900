"""Questions for the APIs of share groups and streams groups, which are disabled (`share.version=0`).

A client must not learn from a refusal which groups and topics exist, and the refusal must depend on the client's rights
in the same way as in Apache Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.model.ids import Uuid
from tests.support.authorization_requests import Question

__all__ = ["switched_off_questions"]

_LATEST = 32767
_MEMBER = "AAAAAAAAAAAAAAAAAAAAAA"


def switched_off_questions(by_id: list[Uuid]) -> Iterator[Question]:
    for group in ("group", "rival"):
        member = {"group_id": group, "member_id": _MEMBER}
        topics = [{"topic_id": topic, "partitions": [{"partition_index": 0}]} for topic in by_id]
        fetch = {**member, "max_wait_ms": 0, "max_records": 1, "batch_size": 1, "topics": topics}
        yield Question(f"share fetch {group}", "ShareFetch", 1, _LATEST, fetch)
        acknowledged = {**member, "share_session_epoch": 1, "topics": topics}
        yield Question(f"share acknowledge {group}", "ShareAcknowledge", 1, _LATEST, acknowledged)
        streams = {**member, "rebalance_timeout_ms": 1000, "process_id": "p", "topology": {"epoch": 0}}
        streams |= {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        yield Question(f"streams heartbeat {group}", "StreamsGroupHeartbeat", 0, _LATEST, streams)
        altered = [{"topic_name": name, "partitions": [{"partition_index": 0}]} for name in ("topic", "other")]
        yield Question(
            f"alter share offsets of {group}",
            "AlterShareGroupOffsets",
            0,
            _LATEST,
            {"group_id": group, "topics": altered},
        )
        deleted = [{"topic_name": name} for name in ("topic", "other")]
        yield Question(
            f"delete share offsets of {group}",
            "DeleteShareGroupOffsets",
            0,
            _LATEST,
            {"group_id": group, "topics": deleted},
        )
    for topics in (None, [{"topic_name": name, "partitions": [0]} for name in ("topic", "other")]):
        groups = [{"group_id": group, "topics": topics} for group in ("group", "rival")]
        label = "share offsets" if topics else "all share offsets"
        yield Question(label, "DescribeShareGroupOffsets", 0, _LATEST, {"groups": groups})
