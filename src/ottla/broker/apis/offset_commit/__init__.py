"""OffsetCommit (key 8), versions 2 to 10: offsets a group has processed.

- 3: throttle time; 5: retention belongs to the broker (KIP-211); 6: leader epochs (KIP-320)
- 7: static members (KIP-345); 8: flexible; 9: members of the new protocol (KIP-848), and GROUP_ID_NOT_FOUND
- 10: topics by id (KIP-848)
"""

from __future__ import annotations

from ottla.broker.apis.api import Api, Portions, Shortcut
from ottla.broker.apis.offset_commit.handler import error_response, handle, handle_in_slices
from ottla.broker.apis.offset_commit.shortcut import VERSION_MIN, recognise
from ottla.model.errors import ErrorCode
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse

__all__ = ["API"]

API = Api(
    request=OffsetCommitRequest,
    response=OffsetCommitResponse,
    handle=handle,
    error_response=error_response,
    handle_in_slices=handle_in_slices,
    shortcut=Shortcut(min_version=VERSION_MIN, run=recognise),
    is_cut_by_elements=True,
    portions=(Portions(request=("topics", "partitions"), response=("topics", "partitions"), refuses_only=True),),
    # The offsets of a request are one batch of the group's log, so more of them would be refused anyway.
    elements_max=12_000,
    refusal=ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
)
