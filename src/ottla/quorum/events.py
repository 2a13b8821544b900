"""The events (past tense) and effects (imperatives) of the quorum's machine.

Effects are executed in order. Effects after a `Persist` may leave the node only when the state is durable.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ottla.model.errors import ErrorCode
from ottla.model.values import Value
from ottla.quorum.roles import Role
from ottla.quorum.snapshots import SnapshotId
from ottla.quorum.voters import ReplicaKey, VoterSet

__all__ = [
    "Answer",
    "Append",
    "AppendLeaderChange",
    "BeginEpochAnswered",
    "BeginEpochRequested",
    "Commit",
    "Effect",
    "EndEpochRequested",
    "Event",
    "Fetch",
    "FetchAnswered",
    "FetchFailed",
    "FetchSnapshot",
    "LogEnd",
    "LogSynced",
    "Persist",
    "ReplicaFetched",
    "RequestFailed",
    "ResignRequested",
    "RoleChanged",
    "SendBeginEpoch",
    "SendEndEpoch",
    "SendVote",
    "SnapshotFetched",
    "SnapshotProgressed",
    "Started",
    "TimePassed",
    "Truncate",
    "VoteAnswered",
    "VoteRequested",
    "VotersChanged",
]

NO_NODE = -1


class LogEnd(NamedTuple):
    """The end of a log. Of two logs, the one with the greater value has every committed entry of the other."""

    epoch: int
    offset: int


# -- events -----------------------------------------------------------------------------------------------------------


class Started(Value):
    """The node has started; this is the first event."""


class TimePassed(Value):
    """The requested deadline has passed, or the caller asks for due actions."""


class VoteRequested(Value):
    candidate: ReplicaKey
    epoch: int
    log_end: LogEnd
    is_pre_vote: bool
    # The intended recipient; None if the sender does not name it.
    voter: ReplicaKey | None = None


class VoteAnswered(Value):
    voter_id: int
    # The epoch and kind of the request.
    asked_epoch: int
    is_pre_vote: bool
    error: ErrorCode
    is_granted: bool
    leader_id: int
    epoch: int


class BeginEpochRequested(Value):
    leader_id: int
    epoch: int
    voter: ReplicaKey | None = None


class BeginEpochAnswered(Value):
    voter_id: int
    error: ErrorCode
    leader_id: int
    epoch: int


class EndEpochRequested(Value):
    leader_id: int
    epoch: int
    # The candidates for the next election, best first.
    candidates: tuple[int, ...] = ()


class RequestFailed(Value):
    """A vote request or BeginQuorumEpoch did not reach its voter."""

    voter_id: int


class ReplicaFetched(Value):
    """A replica has every entry before the offset, durably if it is a voter. Only for the leader's own epoch.

    Without an offset the replica is reachable, but has not determined its log end yet.
    """

    replica: ReplicaKey
    offset: int | None


class FetchAnswered(Value):
    """A response to our fetch. `records` is what the log accepts; None without new entries."""

    fetch_id: int
    error: ErrorCode
    leader_id: int
    epoch: int
    high_watermark: int = -1
    diverging: LogEnd | None = None
    snapshot: SnapshotId | None = None
    records: Any = None


class FetchFailed(Value):
    """A fetch of entries or of a snapshot failed."""

    fetch_id: int


class SnapshotProgressed(Value):
    """A chunk of the snapshot has arrived, so the leader is alive."""


class SnapshotFetched(Value):
    """The snapshot has become the start of the log."""

    fetch_id: int


class LogSynced(Value):
    """`synced_offset` of the log has grown."""


class VotersChanged(Value):
    """An entry with another set of voters was appended or truncated. It takes effect at once, committed or not.

    Reported again without `former_voters` when the entry is known to be committed.
    """

    voters: VoterSet
    former_voters: VoterSet | None = None


class ResignRequested(Value):
    """The node is stopping, or has removed itself from the voters."""


Event = (
    Started
    | TimePassed
    | VoteRequested
    | VoteAnswered
    | BeginEpochRequested
    | BeginEpochAnswered
    | EndEpochRequested
    | RequestFailed
    | ReplicaFetched
    | FetchAnswered
    | FetchFailed
    | SnapshotProgressed
    | SnapshotFetched
    | LogSynced
    | VotersChanged
    | ResignRequested
)


# -- effects ----------------------------------------------------------------------------------------------------------


class Persist(Value):
    """Write the state to `quorum-state`, durably, before any later effect is executed."""

    epoch: int
    leader_id: int
    voted: ReplicaKey | None


class Answer(Value):
    """Answer the request of the event."""

    error: ErrorCode = ErrorCode.NONE
    is_granted: bool = False


class SendVote(Value):
    voter: ReplicaKey
    epoch: int
    is_pre_vote: bool
    log_end: LogEnd


class SendBeginEpoch(Value):
    voter: ReplicaKey
    epoch: int


class SendEndEpoch(Value):
    """Send it without waiting for a response."""

    voter: ReplicaKey
    epoch: int
    candidates: tuple[ReplicaKey, ...]


class Fetch(Value):
    """Fetch the entries after the end of our log from this node; NO_NODE means any node that may know the leader.

    A fetch also reports that every entry before its offset is on disk, so a voter sends it only after its fsync.
    """

    fetch_id: int
    leader_id: int
    epoch: int


class FetchSnapshot(Value):
    """Runs until `SnapshotFetched` or `FetchFailed` with the same id."""

    fetch_id: int
    leader_id: int
    epoch: int
    snapshot: SnapshotId


class Append(Value):
    """Append the fetched entries."""

    records: Any


class Truncate(Value):
    """Truncate the log at the offset."""

    offset: int


class AppendLeaderChange(Value):
    """Append the first entry of the epoch that this node leads."""

    epoch: int
    granting: tuple[int, ...]


class Commit(Value):
    """Every entry before the offset is committed."""

    offset: int


class RoleChanged(Value):
    role: Role
    epoch: int
    leader_id: int


Effect = (
    Persist
    | Answer
    | SendVote
    | SendBeginEpoch
    | SendEndEpoch
    | Fetch
    | FetchSnapshot
    | Append
    | Truncate
    | AppendLeaderChange
    | Commit
    | RoleChanged
)
