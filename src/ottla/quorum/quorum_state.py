"""The file `quorum-state`: the latest epoch of this node, and its vote in that epoch.

It is written before a node acts in an epoch, so that after a crash the node neither votes twice nor leads an epoch
twice. The JSON is Kafka's: `data_version` 0 lists the voters (a quorum given by configuration), 1 leaves them to the
log (KIP-853).
"""

from __future__ import annotations

import json

from ottla.model.ids import Uuid
from ottla.model.ports import Files
from ottla.model.values import Value
from ottla.quorum.errors import MetadataLogDamagedError

__all__ = ["QuorumState", "read_quorum_state", "write_quorum_state"]

FILE_NAME = "quorum-state"
NO_NODE = -1


class QuorumState(Value):
    leader_id: int = NO_NODE
    leader_epoch: int = 0
    voted_id: int = NO_NODE
    voted_directory_id: Uuid = Uuid.ZERO
    # Empty in version 1 of the file.
    voters: tuple[int, ...] = ()
    data_version: int = 0


def read_quorum_state(files: Files, directory: str) -> QuorumState | None:
    path = f"{directory}/{FILE_NAME}"
    if not files.exists(path):
        return None
    try:
        data = json.loads(files.read_bytes(path))
        data_version = int(data["data_version"])
        return QuorumState(
            leader_id=int(data["leaderId"]),
            leader_epoch=int(data["leaderEpoch"]),
            voted_id=int(data["votedId"]),
            voted_directory_id=Uuid.parse(data["votedDirectoryId"]) if "votedDirectoryId" in data else Uuid.ZERO,
            voters=tuple(int(voter["voterId"]) for voter in data.get("currentVoters") or ()),
            data_version=data_version,
        )
    except (ValueError, KeyError, TypeError) as error:
        raise MetadataLogDamagedError(f"{path} cannot be read: {error!r}") from error


def write_quorum_state(files: Files, directory: str, state: QuorumState) -> None:
    if state.data_version == 0:
        data: dict[str, object] = {
            "clusterId": "",
            "leaderId": state.leader_id,
            "leaderEpoch": state.leader_epoch,
            "votedId": state.voted_id,
            "appliedOffset": 0,
            "currentVoters": [{"voterId": voter} for voter in state.voters],
            "data_version": 0,
        }
    else:
        data = {
            "leaderId": state.leader_id,
            "leaderEpoch": state.leader_epoch,
            "votedId": state.voted_id,
            "votedDirectoryId": str(state.voted_directory_id),
            "data_version": state.data_version,
        }
    files.write_atomically(f"{directory}/{FILE_NAME}", json.dumps(data, separators=(",", ":")).encode())
