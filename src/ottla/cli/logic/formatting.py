"""Formats the data directories of a node."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

from ottla.cli.failures import Failure
from ottla.cli.logic.node_files import metadata_directory
from ottla.host.files import OsFiles
from ottla.metadata.first_credentials import CredentialError, parse_credential
from ottla.metadata.format import format_storage
from ottla.metadata.new_quorum import QuorumPlanError, plan_features, plan_quorum
from ottla.model.config import BrokerConfig
from ottla.storage.errors import DirectoryRefused

__all__ = ["format_directories"]


def format_directories(
    config: BrokerConfig,
    cluster_id: str,
    *,
    release_version: str | None = None,
    features: Sequence[str] = (),
    credentials: Sequence[str] = (),
    standalone: bool = False,
    initial_controllers: str | None = None,
    no_initial_controllers: bool = False,
) -> None:
    """The options are those of `ottla storage format`. Directories that are formatted already stay. Raises Failure."""
    chance = random.SystemRandom()
    try:
        quorum = plan_quorum(
            config,
            random=chance,
            standalone=standalone,
            initial_controllers=initial_controllers,
            no_initial_controllers=no_initial_controllers,
        )
        levels = plan_features(
            release_version=release_version, features=features, has_voters_in_log=not config.quorum_voters
        )
        first_voters = quorum.voters
        format_storage(
            OsFiles(),
            log_dirs=tuple(config.log_dirs),
            metadata_log_dir=metadata_directory(config),
            node_id=config.node_id,
            random=chance,
            now_ms=int(time.time() * 1000),
            cluster_id=cluster_id,
            first_voters=None if first_voters is None else lambda _: first_voters,
            metadata_directory_id=quorum.directory_id,
            feature_levels=levels,
            credentials=[parse_credential(text, chance.randbytes) for text in credentials],
        )
    except (CredentialError, DirectoryRefused, QuorumPlanError) as error:
        raise Failure(str(error)) from None
