"""ReadShareGroupStateSummary (key 87), versions 0 to 1: where a share group begins a partition (KIP-932).

- 1: how many records are done with (KIP-1226)

Share groups are not there yet, so nobody coordinates one: the answer is that of a cluster whose `share.version` is 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.read_share_group_state_summary import (
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = ["error_response", "handle"]


def handle(
    request: ReadShareGroupStateSummaryRequest,  # noqa: ARG001
    context: RequestContext,  # noqa: ARG001
    broker: Broker,  # noqa: ARG001
) -> ReadShareGroupStateSummaryResponse:
    raise KafkaError(ErrorCode.NOT_COORDINATOR)


def error_response(
    request: ReadShareGroupStateSummaryRequest,
    version: int,  # noqa: ARG001
    error: KafkaError,
) -> ReadShareGroupStateSummaryResponse:
    return ReadShareGroupStateSummaryResponse(
        results=[
            ReadStateSummaryResult(
                topic_id=topic.topic_id,
                partitions=[
                    PartitionResult(partition=each.partition, error_code=error.code, error_message=error.message)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
