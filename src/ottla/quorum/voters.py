"""Replicas, voters with their addresses, and sets of voters.

A replica is a node and, with `kraft.version` 1, the directory of its log: a node that lost its disk is a different
voter (KIP-853). In a quorum given by configuration the directories are unknown, and the zero id stands for any
directory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ottla.model.ids import Uuid
from ottla.wire.codec import decode, encode
from ottla.wire.messages import control_records as c
from ottla.wire.peers import Endpoint

__all__ = ["ReplicaKey", "Voter", "VoterSet"]


class ReplicaKey(NamedTuple):
    node_id: int
    directory_id: Uuid = Uuid.ZERO

    def matches(self, other: ReplicaKey) -> bool:
        """True if both may be the same replica; an unknown directory matches any directory."""
        if self.node_id != other.node_id:
            return False
        return Uuid.ZERO in (self.directory_id, other.directory_id) or self.directory_id == other.directory_id

    def __str__(self) -> str:
        return str(self.node_id) if self.directory_id == Uuid.ZERO else f"{self.node_id} ({self.directory_id})"


class Voter(NamedTuple):
    key: ReplicaKey
    # Pairs of listener name and endpoint, the preferred listener first.
    endpoints: tuple[tuple[str, Endpoint], ...] = ()
    # The lowest and the highest supported kraft.version.
    kraft_versions: tuple[int, int] = (0, 1)


class VoterSet:
    """Immutable; at most one voter per node."""

    __slots__ = ("_by_id",)

    def __init__(self, voters: Iterable[Voter] = ()) -> None:
        self._by_id: Mapping[int, Voter] = {voter.key.node_id: voter for voter in voters}

    @property
    def ids(self) -> frozenset[int]:
        return frozenset(self._by_id)

    @property
    def majority(self) -> int:
        return len(self._by_id) // 2 + 1

    def get(self, node_id: int) -> Voter | None:
        return self._by_id.get(node_id)

    def has(self, key: ReplicaKey) -> bool:
        voter = self._by_id.get(key.node_id)
        return voter is not None and voter.key.matches(key)

    def is_only(self, key: ReplicaKey) -> bool:
        return len(self._by_id) == 1 and self.has(key)

    def endpoint(self, node_id: int, listener_name: str | None = None) -> Endpoint | None:
        """The endpoint of a voter on the listener of this name, or on its first listener."""
        voter = self._by_id.get(node_id)
        if voter is None or not voter.endpoints:
            return None
        return dict(voter.endpoints).get(listener_name or "", voter.endpoints[0][1])

    def with_voter(self, voter: Voter) -> VoterSet:
        return VoterSet([*(other for other in self if other.key.node_id != voter.key.node_id), voter])

    def without(self, node_id: int) -> VoterSet:
        return VoterSet(voter for voter in self if voter.key.node_id != node_id)

    def encode(self) -> bytes:
        """The body of a VotersRecord."""
        return encode(
            c.VotersRecord(
                version=0,
                voters=[
                    c.VotersRecordVoter(
                        voter_id=voter.key.node_id,
                        voter_directory_id=voter.key.directory_id,
                        endpoints=[
                            c.Endpoint(name=name, host=endpoint.host, port=endpoint.port)
                            for name, endpoint in voter.endpoints
                        ],
                        kraft_version_feature=c.KRaftVersionFeature(
                            min_supported_version=voter.kraft_versions[0],
                            max_supported_version=voter.kraft_versions[1],
                        ),
                    )
                    for voter in self
                ],
            ),
            0,
        )

    @classmethod
    def decode(cls, body: memoryview | bytes) -> VoterSet:
        record = decode(c.VotersRecord, memoryview(body), 0)[0]
        return cls(
            Voter(
                ReplicaKey(voter.voter_id, voter.voter_directory_id),
                tuple((listener.name, Endpoint(listener.host, listener.port)) for listener in voter.endpoints),
                (
                    voter.kraft_version_feature.min_supported_version,
                    voter.kraft_version_feature.max_supported_version,
                ),
            )
            for voter in record.voters
        )

    def __iter__(self) -> Iterator[Voter]:
        """The voters in the order of their node ids."""
        return iter(voter for _, voter in sorted(self._by_id.items()))

    def __len__(self) -> int:
        return len(self._by_id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VoterSet) and self._by_id == other._by_id

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return f"VoterSet({', '.join(str(voter.key) for voter in self)})"
