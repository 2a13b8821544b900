"""`ottla migrate`: checks of the cluster's health and of the node's state."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.cli.failures import Failure
from ottla.cli.logic.doctor_facts import ClusterFacts
from ottla.cli.logic.migration_checks import check_health, check_joining, check_leaving
from ottla.cli.logic.migration_steps import is_running
from ottla.client.admin.nodes import ClusterDescription, ClusterNode, Quorum, QuorumReplica
from ottla.host.files import OsFiles
from ottla.host.references import own_config
from ottla.model.config import BrokerConfig
from ottla.model.ids import Uuid

NOW_MS = 1_000_000


def facts(*fetched_ms: int) -> ClusterFacts:
    """Controllers 1, 2, ... with the times of their last fetches; 1 is the leader."""
    voters = tuple(QuorumReplica(number, Uuid(bytes(16)), 10, ms, ms) for number, ms in enumerate(fetched_ms, 1))
    return ClusterFacts(quorum=Quorum(1, 1, 10, voters, (), {}))


@pytest.mark.parametrize(
    ("fetched_ms", "node_id", "is_well"),
    [
        ((-1, NOW_MS - 400, NOW_MS), 2, True),
        # The log of the metadata hardly grows: a controller that is gone is only a few records behind.
        ((-1, NOW_MS - 400, NOW_MS - 20_000), 2, False),
        ((-1, NOW_MS, -1), 1, False),
        # The node itself: it was stopped, and is to be started now.
        ((-1, NOW_MS - 400, NOW_MS - 20_000), 3, True),
    ],
)
def test_a_controller_that_is_missing_is_noticed(fetched_ms: tuple[int, ...], node_id: int, is_well: bool) -> None:
    findings = check_health([], facts(*fetched_ms), node_id=node_id, now_ms=NOW_MS)
    assert (not findings) is is_well
    assert all("does not answer" in finding.what for finding in findings)


def config(directory: Path) -> BrokerConfig:
    for name in ("data1", "data2", "metadata"):
        (directory / name).mkdir()
    return own_config(
        {
            "node.id": "1",
            "process.roles": "controller",
            "listeners": "CONTROLLER://localhost:1",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.voters": "1@localhost:1",
            "log.dirs": f"{directory}/data1,{directory}/data2",
            "metadata.log.dir": f"{directory}/metadata",
        }
    )


@pytest.mark.parametrize("name", ["data1", "data2", "metadata"])
def test_a_lock_in_any_directory_is_a_running_node(tmp_path: Path, name: str) -> None:
    own = config(tmp_path)
    assert not is_running(own)
    assert not list(tmp_path.glob("*/.lock")), "nothing is changed"
    lock = OsFiles().lock(f"{tmp_path}/{name}/.lock")
    assert is_running(own)
    lock.release()
    assert not is_running(own)


def test_a_lock_that_cannot_be_opened_is_said(tmp_path: Path) -> None:
    own = config(tmp_path)
    (tmp_path / "data2" / ".lock").mkdir()
    with pytest.raises(Failure, match=r"data2/\.lock cannot be opened"):
        is_running(own)


def quorum_of(*voters: int, directory: Uuid = Uuid.ONE) -> Quorum:
    return Quorum(1, 1, 10, tuple(QuorumReplica(voter_id, directory, 10, 0, 0) for voter_id in voters), (), {})


def cluster_of(*brokers: int) -> ClusterDescription:
    return ClusterDescription("c", 1, tuple(ClusterNode(broker_id, "h", 1, None, False) for broker_id in brokers))


@pytest.mark.parametrize(
    ("node_id", "brokers", "quorum", "said"),
    [
        (1, (1, 2), quorum_of(1, 2), ""),
        (1, (1, 2), quorum_of(3), ""),
        (1, (1, 2), quorum_of(1), "the only controller"),
        (1, (1, 2), quorum_of(1, 2, directory=Uuid.ZERO), "fixed"),
        (1, (1,), quorum_of(1, 2), "no other broker"),
    ],
)
def test_a_node_that_the_others_need_stays(node_id: int, brokers: tuple[int, ...], quorum: Quorum, said: str) -> None:
    findings = check_leaving(node_id, cluster_of(*brokers), quorum)
    assert bool(findings) is bool(said)
    assert all(said in finding.what for finding in findings)


@pytest.mark.parametrize(
    ("quorum", "is_new", "said"),
    [
        (quorum_of(2), True, "controller.quorum.voters is set"),
        (quorum_of(2, directory=Uuid.ZERO), True, "fixed"),
        (quorum_of(1, 2), False, "controller.quorum.voters is set"),
    ],
)
def test_a_controller_joins_voters_that_can_change(tmp_path: Path, quorum: Quorum, is_new: bool, said: str) -> None:
    (finding,) = check_joining(config(tmp_path), cluster_of(2), quorum, is_new=is_new)
    assert said in finding.what


def test_a_node_id_is_taken_once(tmp_path: Path) -> None:
    findings = check_joining(config(tmp_path), cluster_of(1, 2), quorum_of(2), is_new=True)
    assert "has a node 1 already" in findings[0].what
