"""What the quorum's machine is told (events, past tense) and what it asks for (effects, imperatives).

Effects are carried out in the order in which they come. Whatever follows a `Persist` may leave the node only after the
state is durable.
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

NOBODY = -1


class LogEnd(NamedTuple):
    """Where a log ends; of two logs the later one by this order has everything that is committed."""

    epoch: int
    offset: int


# -- events -----------------------------------------------------------------------------------------------------------


class Started(Value):
    """The node is there; nothing was told before."""


class TimePassed(Value):
    """The deadline that was asked for has come, or somebody wants to know what is due."""


class VoteRequested(Value):
    candidate: ReplicaKey
    epoch: int
    log_end: LogEnd
    is_pre_vote: bool
    # For whom it was meant; None when the sender does not say.
    voter: ReplicaKey | None = None


class VoteAnswered(Value):
    voter_id: int
    # What was asked.
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
    # Who shall stand for election, the best first.
    candidates: tuple[int, ...] = ()


class RequestFailed(Value):
    """A vote or the news of an epoch did not reach its voter."""

    voter_id: int


class ReplicaFetched(Value):
    """A replica has everything before the offset, durably when it is a voter. Told of the leader's own epoch only.

    Without an offset it is there, but has still to find out what of the log it has.
    """

    replica: ReplicaKey
    offset: int | None


class FetchAnswered(Value):
    """An answer to our fetch. `records` are whatever the log takes; None when there is nothing new."""

    fetch_id: int
    error: ErrorCode
    leader_id: int
    epoch: int
    high_watermark: int = -1
    diverging: LogEnd | None = None
    snapshot: SnapshotId | None = None
    records: Any = None


class FetchFailed(Value):
    """A fetch, of entries or of a snapshot, came to nothing."""

    fetch_id: int


class SnapshotProgressed(Value):
    """A piece of the snapshot has come, so the leader is there."""


class SnapshotFetched(Value):
    """The snapshot is the beginning of the log now."""

    fetch_id: int


class LogSynced(Value):
    """The log's `synced_offset` has grown."""


class VotersChanged(Value):
    """An entry with another set of voters was appended or cut off; it counts from now on, committed or not.

    Told again without `former_voters` once the entry is known to be committed.
    """

    voters: VoterSet
    former_voters: VoterSet | None = None


class ResignRequested(Value):
    """The node is about to stop, or has removed itself."""


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
    """Write this to `quorum-state`, durably, before anything after it is done."""

    epoch: int
    leader_id: int
    voted: ReplicaKey | None


class Answer(Value):
    """The answer to the request that was the event."""

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
    """No answer is waited for."""

    voter: ReplicaKey
    epoch: int
    candidates: tuple[ReplicaKey, ...]


class Fetch(Value):
    """Ask this node for what comes after the end of our log; NOBODY stands for any that may know the leader.

    A fetch is also the word that everything before its offset is on disk: a voter sends it once that is so.
    """

    fetch_id: int
    leader_id: int
    epoch: int


class FetchSnapshot(Value):
    """Goes on until `SnapshotFetched` or `FetchFailed` with the same id."""

    fetch_id: int
    leader_id: int
    epoch: int
    snapshot: SnapshotId


class Append(Value):
    """Append what was fetched."""

    records: Any


class Truncate(Value):
    """Cut off everything from the offset on."""

    offset: int


class AppendLeaderChange(Value):
    """The first entry of the epoch that this node leads."""

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
