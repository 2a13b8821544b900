"""What a quorum begins with, as whoever formats its directories wants it: who votes first, and the feature levels.

Three ways lead to a quorum whose voters can change (KIP-853): one controller alone (`standalone`), several that are all
named with their directories (`initial_controllers`, the same for each of them), or none, for a controller that is to be
added to a quorum that exists. With voters in the configuration none of this applies: those are the voters.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING, NamedTuple

from ottla.metadata.versions import (
    METADATA_VERSION,
    METADATA_VERSION_LATEST,
    NOT_SERVED_YET,
    SUPPORTED_FEATURES,
    feature_dependencies,
    feature_levels_at,
    metadata_version_of,
)
from ottla.model.ids import Uuid
from ottla.quorum.voters import ReplicaKey, Voter, VoterSet
from ottla.wire.peers import Endpoint

if TYPE_CHECKING:
    from ottla.model.config import BrokerConfig

__all__ = ["NewQuorum", "QuorumPlanError", "plan_features", "plan_quorum"]

KRAFT_VERSION = "kraft.version"


class QuorumPlanError(Exception):
    """The directories cannot be formatted like that; the message says why."""


class NewQuorum(NamedTuple):
    # None where the configuration names the voters, or where they are to be heard of from the others.
    voters: VoterSet | None = None
    # The id that the metadata directory has to get; None for any.
    directory_id: Uuid | None = None


def plan_quorum(
    config: BrokerConfig,
    *,
    random: Random,
    standalone: bool = False,
    initial_controllers: str | None = None,
    no_initial_controllers: bool = False,
) -> NewQuorum:
    """Who votes first; the flags are those of Kafka's tool. Raises QuorumPlanError."""
    if sum((standalone, initial_controllers is not None, no_initial_controllers)) > 1:
        raise QuorumPlanError("--standalone, --initial-controllers and --no-initial-controllers exclude each other.")
    if standalone and not config.is_controller:
        raise QuorumPlanError("--standalone is for a controller, and this node is none (process.roles).")
    if config.quorum_voters:
        if standalone or initial_controllers is not None:
            raise QuorumPlanError(
                "controller.quorum.voters names the voters, so they cannot be given here as well; for voters that can "
                "change set controller.quorum.bootstrap.servers instead of it."
            )
        return NewQuorum()
    if standalone:
        endpoint = (config.advertised_controller_endpoints or config.controller_endpoints)[0]
        directory_id = Uuid.random(random)
        own = Voter(
            ReplicaKey(config.node_id, directory_id),
            ((config.controller_listener_names[0], Endpoint(endpoint.host or "localhost", endpoint.port)),),
        )
        return NewQuorum(VoterSet([own]), directory_id)
    if initial_controllers is not None:
        voters = _parse_controllers(initial_controllers, config.controller_listener_names[0])
        own_voter = voters.get(config.node_id) if config.is_controller else None
        return NewQuorum(voters, None if own_voter is None else own_voter.key.directory_id)
    if config.is_controller and not no_initial_controllers:
        raise QuorumPlanError(
            "controller.quorum.voters is not set, so who votes has to be said: --standalone for this controller alone, "
            "--initial-controllers for several, or --no-initial-controllers for one that joins others."
        )
    return NewQuorum()


def plan_features(
    *, release_version: str | None = None, features: Iterable[str] = (), has_voters_in_log: bool = False
) -> dict[str, int]:
    """The levels that a new cluster begins with. Raises QuorumPlanError."""
    metadata_version = METADATA_VERSION_LATEST
    if release_version is not None:
        found = metadata_version_of(release_version)
        if found is None:
            raise QuorumPlanError(f"{release_version} is no release whose metadata this one can write.")
        metadata_version = found
    belonging = feature_levels_at(metadata_version)
    levels = {name: level for name, level in belonging.items() if name not in NOT_SERVED_YET}
    for text in features:
        name, _, level = text.partition("=")
        if name not in SUPPORTED_FEATURES or not level.isdecimal():
            raise QuorumPlanError(f"{text!r} is no feature of this release with its level, such as group.version=1.")
        lowest, highest = SUPPORTED_FEATURES[name]
        if not lowest <= int(level) <= highest:
            raise QuorumPlanError(f"{name} has the levels {lowest} to {highest} here.")
        if name == METADATA_VERSION and release_version is not None:
            raise QuorumPlanError(f"Both a release and {METADATA_VERSION} are given: one says what the other does.")
        if name == KRAFT_VERSION:
            if (int(level) > 0) != has_voters_in_log:
                raise QuorumPlanError(f"{KRAFT_VERSION} follows from how the voters are given, and cannot be {level}.")
            continue
        levels[name] = int(level)
    for name, level_wanted in levels.items():
        for needed, least in feature_dependencies(name, level_wanted):
            if levels.get(needed, 0) < least:
                raise QuorumPlanError(f"{name}={level_wanted} needs {needed} at {least} or above.")
    return levels


def _parse_controllers(text: str, listener: str) -> VoterSet:
    voters = []
    for part in text.split(","):
        try:
            node_id, rest = part.strip().split("@", 1)
            host, port, directory_id = rest.rsplit(":", 2)
            voters.append(
                Voter(
                    ReplicaKey(int(node_id), Uuid.parse(directory_id)),
                    ((listener, Endpoint(host.strip("[]"), int(port))),),
                )
            )
        except ValueError:
            raise QuorumPlanError(
                f"{part.strip()!r} does not name a controller as id@host:port:directory-id does."
            ) from None
    keys = [voter.key for voter in voters]
    if len({key.node_id for key in keys}) < len(keys) or len({key.directory_id for key in keys}) < len(keys):
        raise QuorumPlanError("Two of the initial controllers have the same id or the same directory.")
    return VoterSet(voters)
