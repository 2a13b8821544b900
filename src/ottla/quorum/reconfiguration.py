"""Changes of the voters (KIP-853): add, remove and update voters, and the upgrade to `kraft.version` 1.

Voters change one at a time. Any two majorities of two sets that differ by one voter have a voter in common, so two
different entries cannot both be committed at one offset. A change takes effect when it is appended. The next change may
start only when the previous one is committed, and only after the leader has committed an entry of its own epoch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import Uuid
from ottla.quorum.voters import ReplicaKey, Voter, VoterSet
from ottla.records.control import ControlType
from ottla.wire.codec import encode
from ottla.wire.messages import add_raft_voter as a
from ottla.wire.messages import remove_raft_voter as r
from ottla.wire.messages import update_raft_voter as u
from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.control_records import KRaftVersionRecord
from ottla.wire.peers import Endpoint

if TYPE_CHECKING:
    from ottla.model.ports import World
    from ottla.quorum.raft_node import RaftNode
    from ottla.wire.peers import Peers

__all__ = ["KRAFT_VERSION", "Reconfiguration"]

R = TypeVar("R")

KRAFT_VERSION = "kraft.version"
KRAFT_VERSIONS = (0, 1)

PURPOSE = "quorum"
# The interval in which a leader checks whether a new voter has caught up.
POLL_SECONDS = 0.02
CHANGE_TIMEOUT_MS = 30_000


class Reconfiguration:
    """Changes the voters while this node leads."""

    def __init__(self, *, world: World, quorum: RaftNode, peers: Peers | None, cluster_id: str) -> None:
        self._world = world
        self._quorum = quorum
        self._peers = peers
        self._cluster_id = cluster_id
        self._is_busy = False
        # The last upgrade of `kraft.version` that this node has appended.
        self._upgraded: Deferred[None] = Deferred.resolved(None)

    # -- requests ---------------------------------------------------------------------------------------------------

    def add_voter(self, request: a.AddRaftVoterRequest) -> Deferred[a.AddRaftVoterResponse]:
        voter = Voter(ReplicaKey(request.voter_id, request.voter_directory_id), _endpoints(request.listeners))
        deadline = self._world.clock.monotonic() + (request.timeout_ms or CHANGE_TIMEOUT_MS) / 1000

        def change() -> Deferred[Any]:
            self._check_may_change(request.cluster_id)
            if request.voter_id in self._quorum.log.voters.ids:
                raise KafkaError(ErrorCode.DUPLICATE_VOTER, f"node {request.voter_id} is already a voter")
            if not voter.endpoints:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "a voter needs at least one listener")
            self._is_busy = True
            checked = self._check_new_voter(voter, deadline).finally_do(self._not_busy)
            return checked.and_then(lambda _: self._add_checked(voter, ack_when_committed=request.ack_when_committed))

        return _answered(change, lambda code, sentence: a.AddRaftVoterResponse(error_code=code, error_message=sentence))

    def remove_voter(self, request: r.RemoveRaftVoterRequest) -> Deferred[r.RemoveRaftVoterResponse]:
        def change() -> Deferred[Any]:
            self._check_may_change(request.cluster_id)
            voters = self._quorum.log.voters
            voter = voters.get(request.voter_id)
            if voter is None or voter.key.directory_id != request.voter_directory_id or len(voters) == 1:
                raise KafkaError(
                    ErrorCode.VOTER_NOT_FOUND,
                    f"{ReplicaKey(request.voter_id, request.voter_directory_id)} is not a voter, or is the only one",
                )
            return self._append(voters.without(request.voter_id))

        return _answered(
            change, lambda code, sentence: r.RemoveRaftVoterResponse(error_code=code, error_message=sentence)
        )

    def update_voter(self, request: u.UpdateRaftVoterRequest) -> Deferred[u.UpdateRaftVoterResponse]:
        key = ReplicaKey(request.voter_id, request.voter_directory_id)

        def respond(code: ErrorCode, _sentence: str | None) -> u.UpdateRaftVoterResponse:
            news = self._quorum.news
            leader = u.CurrentLeader(leader_id=news.leader_id, leader_epoch=news.epoch)
            if news.endpoint is not None:
                leader.host, leader.port = news.endpoint.host, news.endpoint.port
            return u.UpdateRaftVoterResponse(error_code=code, current_leader=leader)

        def change() -> Deferred[Any]:
            self._check_cluster(request.cluster_id)
            error_code = self._quorum.machine.fetch_error(request.current_leader_epoch)
            if error_code is not ErrorCode.NONE:
                raise KafkaError(error_code)
            current = self._quorum.log.voters.get(request.voter_id)
            # A voter with a known directory stays that one: without it, any directory of the node would count.
            if current is None or current.key.directory_id not in (Uuid.ZERO, key.directory_id):
                raise KafkaError(ErrorCode.VOTER_NOT_FOUND, f"{key} is not a voter")
            feature = request.kraft_version_feature
            versions = (feature.min_supported_version, feature.max_supported_version)
            if not versions[0] <= self._quorum.log.kraft_version <= versions[1]:
                raise KafkaError(ErrorCode.INVALID_REQUEST, f"{key} does not support the cluster's {KRAFT_VERSION}")
            changed = Voter(key, _endpoints(request.listeners), versions)
            if self._quorum.log.kraft_version == 0 or changed == current:
                # In a quorum given by configuration nothing is written: the configuration has the addresses.
                return Deferred.resolved(None)
            if not changed.endpoints:
                raise KafkaError(ErrorCode.INVALID_REQUEST, "a voter needs at least one listener")
            self._check_may_change(request.cluster_id)
            return self._append(self._quorum.log.voters.with_voter(changed))

        return _answered(change, respond)

    def upgrade(self, level: int, *, validate_only: bool) -> Deferred[None]:
        """Moves the voters from the configuration to the log, which is `kraft.version` 1. There is no way back."""
        quorum = self._quorum
        present = quorum.log.kraft_version
        if level == present:
            # An earlier request may have written that level, and it may not be committed yet.
            return Deferred.resolved(None) if self._upgraded.done else self._upgraded.then(lambda _: None)
        if not KRAFT_VERSIONS[0] <= level <= KRAFT_VERSIONS[1] or level < present:
            return Deferred.failed(
                KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"{KRAFT_VERSION} cannot go from {present} to {level}")
            )
        leadership = quorum.machine.leadership
        if leadership is None or not quorum.is_leading:
            return Deferred.failed(KafkaError(ErrorCode.NOT_CONTROLLER, "this node does not lead the quorum"))
        voters: list[Voter] = []
        for voter in quorum.log.voters:
            progress = leadership.progress(voter.key.node_id)
            key = quorum.own if voter.key.matches(quorum.own) else None if progress is None else progress.key
            if key is None or key.directory_id == Uuid.ZERO:
                return Deferred.failed(
                    KafkaError(
                        ErrorCode.INVALID_UPDATE_VERSION,
                        f"voter {voter.key.node_id} has not reported its directory yet: all voters must be running",
                    )
                )
            voters.append(voter._replace(key=key))
        if validate_only:
            return Deferred.resolved(None)
        records = [
            (ControlType.KRAFT_VERSION, encode(KRaftVersionRecord(kraft_version=level), 0)),
            (ControlType.KRAFT_VOTERS, VoterSet(voters).encode()),
        ]
        self._upgraded = self._appended(quorum.log.append_control(records)).then(lambda _: None)
        return self._upgraded

    # -- steps ------------------------------------------------------------------------------------------------------

    def _check_cluster(self, cluster_id: str | None) -> None:
        if cluster_id is not None and cluster_id != self._cluster_id:
            raise KafkaError(ErrorCode.INCONSISTENT_CLUSTER_ID)

    def _check_may_change(self, cluster_id: str | None) -> None:
        quorum = self._quorum
        self._check_cluster(cluster_id)
        if not quorum.machine.is_leader:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node does not lead the quorum")
        if quorum.log.kraft_version == 0:
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION, f"the configuration names the voters while {KRAFT_VERSION} is 0"
            )
        if self._is_busy or not quorum.is_leading or quorum.log.has_pending_voters:
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the previous change of voters is not finished")

    def _check_new_voter(self, voter: Voter, deadline: float) -> Deferred[None]:
        """Checks that the new voter is reachable, supports the protocol and has every committed entry."""
        checked: Deferred[None] = Deferred()
        level = self._quorum.log.kraft_version

        def on_versions(answer: Deferred[Any]) -> None:
            if answer.error is not None:
                checked.fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{voter.key} cannot be reached: {answer.error}"))
                return
            ranges = {
                feature.name: (feature.min_version, feature.max_version)
                for feature in answer.result().supported_features
            }
            lowest, highest = ranges.get(KRAFT_VERSION, (0, 0))
            if lowest <= level <= highest:
                wait()
            else:
                checked.fail(
                    KafkaError(ErrorCode.INVALID_REQUEST, f"{voter.key} does not support {KRAFT_VERSION} {level}")
                )

        def wait() -> None:
            leadership = self._quorum.machine.leadership
            if leadership is None:
                checked.fail(KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "this node lost leadership of the quorum"))
                return
            progress = leadership.progress(voter.key.node_id)
            if progress is not None and progress.key == voter.key and progress.caught_up_ms >= 0:
                checked.resolve(None)
            elif self._world.clock.monotonic() >= deadline:
                checked.fail(KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{voter.key} does not follow the log closely"))
            else:
                self._world.scheduler.call_later(POLL_SECONDS, wait)

        if self._peers is None:
            return Deferred.failed(KafkaError(ErrorCode.REQUEST_TIMED_OUT, "no other node can be reached"))
        timeout_ms = self._quorum.settings.timing.request_timeout_ms
        request = ApiVersionsRequest(client_software_name="ottla", client_software_version="1")
        names = [name for name, _ in self._quorum.settings.listeners]
        endpoint = next((endpoint for name, endpoint in voter.endpoints if name in names), voter.endpoints[0][1])
        self._peers.send(endpoint, request, purpose=PURPOSE, timeout_ms=timeout_ms).when_done(on_versions)
        return checked

    def _not_busy(self) -> None:
        self._is_busy = False

    def _add_checked(self, voter: Voter, *, ack_when_committed: bool) -> Deferred[int]:
        """The new voter has caught up. The quorum may have changed while that was waited for."""
        self._check_may_change(None)
        appended = self._append(self._quorum.log.voters.with_voter(voter))
        return appended if ack_when_committed or appended.error is not None else Deferred.resolved(-1)

    def _append(self, voters: VoterSet) -> Deferred[int]:
        return self._appended(self._quorum.log.append_control([(ControlType.KRAFT_VOTERS, voters.encode())]))

    def _appended(self, appended: Deferred[int]) -> Deferred[int]:
        # The machine reads the voters in its next step.
        self._quorum.poke()
        return appended


def _endpoints(listeners: Any) -> tuple[tuple[str, Endpoint], ...]:
    return tuple((listener.name, Endpoint(listener.host, listener.port)) for listener in listeners)


def _answered(change: Callable[[], Deferred[Any]], respond: Callable[[ErrorCode, str | None], R]) -> Deferred[R]:
    """The response after the change, whether it was made or refused."""
    try:
        changed = change()
    except KafkaError as error:
        changed = Deferred.failed(error)
    response = changed.then(lambda _: respond(ErrorCode.NONE, None))
    return response.recover(BaseException, lambda error: respond(*_code_and_sentence(error)))


def _code_and_sentence(error: BaseException) -> tuple[ErrorCode, str | None]:
    if isinstance(error, KafkaError):
        return error.code, error.message
    # The disk refused the entry, or another node leads now.
    return ErrorCode.REQUEST_TIMED_OUT, str(error)
