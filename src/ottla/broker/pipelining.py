"""Which requests may be started behind an unanswered request of the same connection.

Kafka handles one request of a connection at a time, so a client never sees an answer that is older than one it got
before on the same connection. A waiting Fetch that answers high watermark 1 must not be followed by a ListOffsets that
answers 0 because it was evaluated while the Fetch waited. The rule: a request is evaluated when every earlier request
of its connection has been answered.

The pairs below are the exceptions. For each, evaluating the second request early gives the same answer as evaluating it
late, or an answer that Kafka's order could give, too. The relation is an equivalence (a test checks it), which allows
`ottla.wire.connection.server` to look at the newest unanswered request alone.
"""

from __future__ import annotations

from ottla.wire.api import ApiKey

__all__ = ["NO_API", "STARTS_BEHIND"]

NO_API: frozenset[int] = frozenset()


def _overlapping(*keys: ApiKey) -> dict[int, frozenset[int]]:
    numbers = frozenset(int(key) for key in keys)
    return dict.fromkeys(numbers, numbers)


STARTS_BEHIND: dict[int, frozenset[int]] = {
    # A produce request is appended when it is started, and its answer names its own offsets. Those follow from the
    # order of appends, which is the order of requests. What waits is only the acknowledgement of the replicas, and a
    # later append cannot be acknowledged before an earlier one of the same partition.
    **_overlapping(ApiKey.PRODUCE),
    # The same holds for markers, which a transaction coordinator sends to the leader of a partition.
    **_overlapping(ApiKey.WRITE_TXN_MARKERS),
    # A commit is decided when it is started, against the state that every earlier commit has changed already. Its
    # answer shows no offsets. What waits is the replication of the coordinator's log, which acknowledges in log order.
    **_overlapping(ApiKey.OFFSET_COMMIT),
    # A broker forwards the requests of all its clients on one connection. The order of one client's requests is kept by
    # the broker: it forwards a request only when the earlier ones of that client's connection have been answered. The
    # controller decides in the order of arrival, and every decision sees the ones before it.
    **_overlapping(ApiKey.ENVELOPE),
}
