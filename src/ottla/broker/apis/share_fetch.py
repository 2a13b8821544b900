"""ShareFetch (key 78), versions 1 to 2: records acquired for a share group (KIP-932).

- 2: the limit of records is kept strictly (KIP-1206); acquisitions can be renewed (KIP-1222)

Share groups are not there yet: the answer is that of a cluster whose `share.version` is 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.errors import ErrorCode
from ottla.wire.messages.share_fetch import ShareFetchRequest, ShareFetchResponse

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.context import RequestContext

__all__ = ["handle"]


def handle(
    request: ShareFetchRequest,  # noqa: ARG001
    context: RequestContext,  # noqa: ARG001
    broker: Broker,  # noqa: ARG001
) -> ShareFetchResponse:
    return ShareFetchResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
