"""Fetch (key 1), versions 4 to 18: consumers, and followers, which are consumers that may read to the end of the log.

- 4: isolation level and aborted transactions (KIP-98)
- 5: the log's start offset
- 7: incremental sessions (KIP-227)
- 9: the client's idea of the leader epoch is checked (KIP-320)
- 10: zstd
- 11: the client's rack, for reading from the nearest replica (KIP-392); from here on followers serve consumers
- 12: flexible; the epoch last fetched, for finding where two logs diverge (KIP-595)
- 13: topics are named by id (KIP-516)
- 15: the request has the follower's broker epoch (KIP-903)
- 16: the answer names the leader if this broker is not the leader (KIP-951)
- 17, 18: directory id and high watermark of a Raft replica; of no meaning for partitions of topics
"""

from __future__ import annotations

from ottla.broker.apis.api import Api, Shortcut
from ottla.broker.apis.fetch.handler import error_response, handle, handle_in_slices
from ottla.broker.apis.fetch.shortcut import VERSION, plan_usual_fetch
from ottla.broker.fetch_senders import is_from_follower
from ottla.wire.messages.fetch import FetchRequest, FetchResponse

__all__ = ["API"]

API = Api(
    request=FetchRequest,
    response=FetchResponse,
    handle=handle,
    error_response=error_response,
    shortcut=Shortcut(min_version=VERSION, run=plan_usual_fetch),
    handle_in_slices=handle_in_slices,
    is_from_broker=is_from_follower,
)
