"""ShareAcknowledge (key 79), versions 1 to 2: what became of acquired records (KIP-932).

- 2: acquisitions can be renewed (KIP-1222)

Share groups are not there yet: the answer is that of a cluster whose `share.version` is 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.errors import ErrorCode
from ottla.wire.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = ["handle"]


def handle(
    request: ShareAcknowledgeRequest,  # noqa: ARG001
    context: RequestContext,  # noqa: ARG001
    broker: Broker,  # noqa: ARG001
) -> ShareAcknowledgeResponse:
    return ShareAcknowledgeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
