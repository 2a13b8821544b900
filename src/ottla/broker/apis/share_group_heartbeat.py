"""ShareGroupHeartbeat (key 76), version 1: membership in a share group (KIP-932).

Share groups are not there yet: the answer is that of a cluster whose `share.version` is 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.errors import ErrorCode
from ottla.wire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = ["handle"]


def handle(
    request: ShareGroupHeartbeatRequest,  # noqa: ARG001
    context: RequestContext,  # noqa: ARG001
    broker: Broker,  # noqa: ARG001
) -> ShareGroupHeartbeatResponse:
    return ShareGroupHeartbeatResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
