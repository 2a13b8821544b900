"""The first voters and features, from the flags of `storage format`."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from ottla.metadata.new_quorum import NewQuorum, QuorumPlanError, plan_features, plan_quorum
from ottla.metadata.versions import DEFAULT_FEATURE_LEVELS
from ottla.model.config import BrokerConfig
from ottla.model.ids import Uuid
from ottla.quorum.voters import ReplicaKey
from ottla.wire.peers import Endpoint

FIRST, SECOND = "AAAAAAAAAAAAAAAAAAAAAQ", "AAAAAAAAAAAAAAAAAAAAAg"
BOTH = f"1@one:9093:{FIRST},2@[::1]:9094:{SECOND}"


def config(**changes: str) -> BrokerConfig:
    properties = {
        "process.roles": "controller",
        "node.id": "1",
        "listeners": "CONTROLLER://127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        "log.dirs": "/nowhere",
        **{name.replace("_", "."): value for name, value in changes.items()},
    }
    return BrokerConfig(properties)


def plan(of: BrokerConfig | None = None, **flags: Any) -> NewQuorum:
    return plan_quorum(of or config(), random=Random(1), **flags)


def test_one_controller_alone() -> None:
    quorum = plan(standalone=True)
    assert quorum.voters is not None
    (voter,) = quorum.voters
    assert voter.key == ReplicaKey(1, quorum.directory_id or Uuid.ZERO)
    assert voter.endpoints == (("CONTROLLER", Endpoint("127.0.0.1", 9093)),)


def test_several_controllers_know_each_other_by_directory() -> None:
    quorum = plan(initial_controllers=BOTH)
    assert quorum.directory_id == Uuid.parse(FIRST)
    assert quorum.voters is not None
    assert [(voter.key, voter.endpoints[0][1]) for voter in quorum.voters] == [
        (ReplicaKey(1, Uuid.parse(FIRST)), Endpoint("one", 9093)),
        (ReplicaKey(2, Uuid.parse(SECOND)), Endpoint("::1", 9094)),
    ]
    # A node outside the voter set learns the voters, and may have any directory id.
    assert plan(config(node_id="3"), initial_controllers=BOTH)[1:] == (None,)


def test_a_node_that_joins_a_quorum_knows_no_voters() -> None:
    assert plan(no_initial_controllers=True) == NewQuorum()
    configured = config(controller_quorum_bootstrap_servers="", controller_quorum_voters="1@127.0.0.1:9093")
    assert plan(configured) == NewQuorum()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({}, "--no-initial-controllers"),
        ({"standalone": True, "no_initial_controllers": True}, "exclude each other"),
        ({"initial_controllers": "1@one:9093"}, "id@host:port:directory-id"),
        ({"initial_controllers": f"1@one:9093:{FIRST},1@two:9093:{SECOND}"}, "same id"),
        ({"initial_controllers": f"1@one:9093:{FIRST},2@two:9093:{FIRST}"}, "same directory"),
    ],
)
def test_what_makes_no_quorum_is_refused(flags: dict[str, Any], words: str) -> None:
    with pytest.raises(QuorumPlanError, match=words):
        plan(**flags)


def test_voters_are_named_in_one_place() -> None:
    configured = config(controller_quorum_bootstrap_servers="", controller_quorum_voters="1@127.0.0.1:9093")
    for flags in ({"standalone": True}, {"initial_controllers": BOTH}):
        with pytest.raises(QuorumPlanError, match=r"controller\.quorum\.voters"):
            plan(configured, **flags)
    broker = config(process_roles="broker", listeners="PLAINTEXT://127.0.0.1:9092")
    with pytest.raises(QuorumPlanError, match=r"process\.roles"):
        plan(broker, standalone=True)


def test_features_of_a_release() -> None:
    assert plan_features() == plan_features(release_version="4.3") == DEFAULT_FEATURE_LEVELS
    assert list(plan_features()) == list(DEFAULT_FEATURE_LEVELS)
    assert plan_features(release_version="3.9") == {"metadata.version": 21}
    assert plan_features(release_version="4.0-IV1") == {"metadata.version": 23, "group.version": 1}
    assert plan_features(release_version="4.0", features=["group.version=0"]) == {
        "metadata.version": 25,
        "group.version": 0,
        "transaction.version": 2,
    }


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"release_version": "2.8"}, "not a release"),
        ({"features": ["group.version"]}, "not a feature"),
        ({"features": ["nothing=1"]}, "not a feature"),
        ({"features": ["share.version=7"]}, "0 to 1"),
        ({"features": ["kraft.version=0"], "has_voters_in_log": True}, "follows"),
        ({"features": ["metadata.version=22", "eligible.leader.replicas.version=1"]}, "needs metadata.version"),
        ({"release_version": "4.0", "features": ["metadata.version=22"]}, "both"),
    ],
)
def test_levels_that_cannot_be_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(QuorumPlanError, match=words):
        plan_features(**options)
