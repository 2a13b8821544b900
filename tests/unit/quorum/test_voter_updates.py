"""UpdateRaftVoter and upgrades of `kraft.version`: what is refused, and what waits for its commit."""

from __future__ import annotations

from ottla.model.errors import ErrorCode
from ottla.model.ids import Uuid
from ottla.wire.messages import update_raft_voter as u
from tests.unit.quorum.test_raft_nodes import Quorum, upgraded


def updated(
    quorum: Quorum, voter_id: int, directory_id: Uuid, listeners: list[u.Listener], versions: tuple[int, int] = (0, 1)
) -> ErrorCode:
    leader = quorum.leader()
    feature = u.KRaftVersionFeature(min_supported_version=versions[0], max_supported_version=versions[1])
    request = u.UpdateRaftVoterRequest(
        cluster_id="ours",
        current_leader_epoch=leader.machine.epoch,
        voter_id=voter_id,
        voter_directory_id=directory_id,
        listeners=listeners,
        kraft_version_feature=feature,
    )
    answer = leader.reconfiguration.update_voter(request)
    quorum.run(1000)
    return ErrorCode(answer.result().error_code)


def test_a_voter_keeps_its_directory() -> None:
    quorum = upgraded(3)
    own = quorum.followers()[0].own
    listener = u.Listener(name="C", host="node", port=own.node_id + 10)
    assert updated(quorum, own.node_id, Uuid.ZERO, [listener]) is ErrorCode.VOTER_NOT_FOUND
    voter = quorum.leader().log.voters.get(own.node_id)
    assert voter is not None
    assert voter.key == own


def test_a_voter_has_listeners_and_the_versions_of_the_cluster() -> None:
    quorum = upgraded(3)
    own = quorum.followers()[0].own
    listener = u.Listener(name="C", host="node", port=own.node_id)
    directory_id = own.directory_id
    assert updated(quorum, own.node_id, directory_id, [listener], (0, 0)) is ErrorCode.INVALID_REQUEST
    assert updated(quorum, own.node_id, directory_id, []) is ErrorCode.INVALID_REQUEST
    voter = quorum.leader().log.voters.get(own.node_id)
    assert voter is not None
    assert voter.endpoints


def test_a_second_upgrade_waits_for_the_commit_of_the_first() -> None:
    quorum = Quorum(3)
    quorum.run(1000)
    leader = quorum.leader()
    quorum.cut_off.update(follower.own.node_id for follower in quorum.followers())
    for _ in range(2):
        assert not leader.reconfiguration.upgrade(1, validate_only=False).done
