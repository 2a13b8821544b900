"""WriteShareGroupState (key 85), versions 0 to 1: changes a share group's state of a partition (KIP-932).

- 1: how many records are done with (KIP-1226)

Share groups are not there yet, so nobody coordinates one: the answer is that of a cluster whose `share.version` is 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.write_share_group_state import (
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = ["error_response", "handle"]


def handle(
    request: WriteShareGroupStateRequest,  # noqa: ARG001
    context: RequestContext,  # noqa: ARG001
    broker: Broker,  # noqa: ARG001
) -> WriteShareGroupStateResponse:
    raise KafkaError(ErrorCode.NOT_COORDINATOR)


def error_response(
    request: WriteShareGroupStateRequest,
    version: int,  # noqa: ARG001
    error: KafkaError,
) -> WriteShareGroupStateResponse:
    return WriteShareGroupStateResponse(
        results=[
            WriteStateResult(
                topic_id=topic.topic_id,
                partitions=[
                    PartitionResult(partition=each.partition, error_code=error.code, error_message=error.message)
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )
