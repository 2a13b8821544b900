"""OffsetCommit (key 8), versions 2 to 10: offsets a group has processed.

- 3: throttle time; 5: retention belongs to the broker (KIP-211); 6: leader epochs (KIP-320)
- 7: static members (KIP-345); 8: flexible; 9: members of the new protocol (KIP-848), and GROUP_ID_NOT_FOUND
- 10: topics by id (KIP-848)
"""

from __future__ import annotations

from ottla.broker.apis.offset_commit.handler import error_response, handle

__all__ = ["error_response", "handle"]
