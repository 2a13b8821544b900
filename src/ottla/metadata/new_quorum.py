"""The first voters and the feature levels of a new quorum, as given to `storage format`.

A quorum whose voters can change (KIP-853) starts in one of three ways: with one controller (`standalone`), with several
controllers that are named with their directories (`initial_controllers`, the same list on each of them), or with none,
for a controller that will join an existing quorum. Where the configuration names the voters, none of this applies.
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
    """The directories cannot be formatted as requested; the message gives the reason."""


class NewQuorum(NamedTuple):
    # None if the configuration names the voters, or if they are learned from other controllers.
    voters: VoterSet | None = None
    # The required id of the metadata directory; None for any id.
    directory_id: Uuid | None = None


def plan_quorum(
    config: BrokerConfig,
    *,
    random: Random,
    standalone: bool = False,
    initial_controllers: str | None = None,
    no_initial_controllers: bool = False,
) -> NewQuorum:
    """The first voters; the flags are those of Kafka's tool. Raises QuorumPlanError."""
    if sum((standalone, initial_controllers is not None, no_initial_controllers)) > 1:
        raise QuorumPlanError("--standalone, --initial-controllers and --no-initial-controllers exclude each other.")
    if standalone and not config.is_controller:
        raise QuorumPlanError("--standalone requires a controller, but process.roles does not contain controller.")
    if config.quorum_voters:
        if standalone or initial_controllers is not None:
            raise QuorumPlanError(
                "controller.quorum.voters already names the voters. For voters that can change, set "
                "controller.quorum.bootstrap.servers instead."
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
            "controller.quorum.voters is not set, so the voters must be given: --standalone for this controller alone, "
            "--initial-controllers for several, or --no-initial-controllers for a controller that joins a quorum."
        )
    return NewQuorum()


def plan_features(
    *, release_version: str | None = None, features: Iterable[str] = (), has_voters_in_log: bool = False
) -> dict[str, int]:
    """The feature levels of a new cluster. Raises QuorumPlanError."""
    metadata_version = METADATA_VERSION_LATEST
    if release_version is not None:
        level_of_release = metadata_version_of(release_version)
        if level_of_release is None:
            raise QuorumPlanError(f"{release_version} is not a release whose metadata this one can write.")
        metadata_version = level_of_release
    belonging = feature_levels_at(metadata_version)
    levels = {name: level for name, level in belonging.items() if name not in NOT_SERVED_YET}
    for text in features:
        name, _, level = text.partition("=")
        if name not in SUPPORTED_FEATURES or not level.isdecimal():
            raise QuorumPlanError(f"{text!r} is not a feature of this release with a level, such as group.version=1.")
        lowest, highest = SUPPORTED_FEATURES[name]
        if not lowest <= int(level) <= highest:
            raise QuorumPlanError(f"{name} supports the levels {lowest} to {highest}.")
        if name == METADATA_VERSION and release_version is not None:
            raise QuorumPlanError(f"A release and {METADATA_VERSION} are both given; give one of them.")
        if name == KRAFT_VERSION:
            if (int(level) > 0) != has_voters_in_log:
                raise QuorumPlanError(f"{KRAFT_VERSION} follows from how the voters are given and cannot be {level}.")
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
            node_id, address = part.strip().split("@", 1)
            host, port, directory_id = address.rsplit(":", 2)
            voters.append(
                Voter(
                    ReplicaKey(int(node_id), Uuid.parse(directory_id)),
                    ((listener, Endpoint(host.strip("[]"), int(port))),),
                )
            )
        except ValueError:
            raise QuorumPlanError(
                f"{part.strip()!r} does not name a controller as id@host:port:directory-id."
            ) from None
    keys = [voter.key for voter in voters]
    if len({key.node_id for key in keys}) < len(keys) or len({key.directory_id for key in keys}) < len(keys):
        raise QuorumPlanError("Two initial controllers have the same id or the same directory.")
    return VoterSet(voters)
