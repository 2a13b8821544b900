"""Formats new data directories before the first start, and checks formatted ones.

Apache Kafka requires an explicit `kafka-storage format`. An embedded node formats its directories itself, because an
empty directory can only mean a new cluster. A lost directory that comes back empty gets the cluster id of the other
directories. If every directory is empty, the cluster is new. `NodeLifecycle` refuses before that to start a voter whose
metadata directory is lost.

All of this happens under the locks of the directories. Of two nodes that start on the same new directory at once, one
formats it, and the other finds it formatted or is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from random import Random
from typing import NamedTuple

from ottla.metadata.bootstrap import write_bootstrap, write_first_voters
from ottla.metadata.versions import DEFAULT_FEATURE_LEVELS
from ottla.model.ids import Uuid
from ottla.model.ports import Files
from ottla.quorum.local_log import METADATA_DIRECTORY
from ottla.quorum.quorum_state import FILE_NAME as QUORUM_STATE_FILE
from ottla.quorum.snapshots import BOOTSTRAP_FILE
from ottla.quorum.voters import VoterSet
from ottla.storage.directories import lock_directory
from ottla.storage.errors import DirectoryRefused
from ottla.storage.meta_properties import MetaProperties, read_meta_properties, write_meta_properties
from ottla.storage.names import LOG_SUFFIX
from ottla.wire.message import Message

__all__ = ["FormattedStorage", "StorageNotFormattedError", "format_storage"]


class StorageNotFormattedError(Exception):
    """A directory is new, and automatic formatting is off."""


class FormattedStorage(NamedTuple):
    cluster_id: str
    # Directory ids by path, as in the configuration; without failed directories.
    directory_ids: Mapping[str, Uuid]
    # True if every directory was new, so that a new cluster starts.
    is_new: bool


def format_storage(
    files: Files,
    *,
    log_dirs: Sequence[str],
    metadata_log_dir: str,
    node_id: int,
    random: Random,
    now_ms: int,
    cluster_id: str | None = None,
    may_format: bool = True,
    first_voters: Callable[[Uuid], VoterSet] | None = None,
    metadata_directory_id: Uuid | None = None,
    feature_levels: Mapping[str, int] = DEFAULT_FEATURE_LEVELS,
    credentials: Sequence[Message] = (),
) -> FormattedStorage:
    """Formats new directories and returns the ids of all of them.

    `cluster_id` is the id of a new cluster (random if None); it must match the id of formatted directories.
    `first_voters` gives the first voters of a new cluster for the id of the metadata directory, where the configuration
    does not name the voters (KIP-853). `metadata_directory_id` is that id if other nodes already know it.
    `feature_levels` are the levels of a new cluster, `credentials` the first records of its users.
    """
    directories = list(dict.fromkeys((*log_dirs, metadata_log_dir)))
    with ExitStack() as locks:
        return _format(
            files,
            locks,
            directories=directories,
            metadata_log_dir=metadata_log_dir,
            node_id=node_id,
            random=random,
            now_ms=now_ms,
            cluster_id=cluster_id,
            may_format=may_format,
            first_voters=first_voters,
            metadata_directory_id=metadata_directory_id or Uuid.random(random),
            feature_levels=feature_levels,
            credentials=credentials,
        )


def _format(
    files: Files,
    locks: ExitStack,
    *,
    directories: Sequence[str],
    metadata_log_dir: str,
    node_id: int,
    random: Random,
    now_ms: int,
    cluster_id: str | None,
    may_format: bool,
    first_voters: Callable[[Uuid], VoterSet] | None,
    metadata_directory_id: Uuid,
    feature_levels: Mapping[str, int],
    credentials: Sequence[Message],
) -> FormattedStorage:
    formatted: dict[str, MetaProperties] = {}
    offline: set[str] = set()
    for directory in directories:
        try:
            files.make_directories(directory)
            locks.callback(lock_directory(files, directory).release)
            meta = read_meta_properties(files, directory)
        except OSError:
            if directory == metadata_log_dir:
                raise
            # The log manager detects the same failure and takes the directory out of service. The node can run without
            # it.
            offline.add(directory)
            continue
        if meta is not None:
            _check_identity(directory, meta, node_id=node_id, others=formatted, cluster_id=cluster_id)
            formatted[directory] = meta
    missing = [directory for directory in directories if directory not in formatted and directory not in offline]
    _check_missing(files, missing, metadata_log_dir=metadata_log_dir, may_format=may_format)
    is_new = not formatted
    stored_id = next((meta.cluster_id for meta in formatted.values() if meta.cluster_id is not None), cluster_id)
    cluster_id = stored_id or str(Uuid.random(random))
    if is_new and not files.exists(f"{metadata_log_dir}/{BOOTSTRAP_FILE}"):
        write_bootstrap(files, metadata_log_dir, now_ms=now_ms, levels=feature_levels, credentials=credentials)
    if is_new and first_voters:
        write_first_voters(files, metadata_log_dir, first_voters(metadata_directory_id), now_ms=now_ms)
    for directory in directories:
        if directory in offline:
            continue
        meta = formatted.get(directory)
        if meta is None or meta.directory_id is None:
            # Last, so that a crash before this point leaves the directory unformatted.
            own_id = metadata_directory_id if directory == metadata_log_dir else Uuid.random(random)
            meta = MetaProperties(cluster_id=cluster_id, node_id=node_id, directory_id=own_id)
            try:
                write_meta_properties(files, directory, meta)
            except OSError:
                if directory == metadata_log_dir:
                    raise
                continue
            formatted[directory] = meta
    return FormattedStorage(cluster_id, _directory_ids(formatted), is_new)


def _check_missing(files: Files, missing: Sequence[str], *, metadata_log_dir: str, may_format: bool) -> None:
    """Checks that directories without meta.properties may be formatted."""
    if missing and not may_format:
        raise StorageNotFormattedError(
            f"{missing[0]} is not formatted (no meta.properties). Format it with the cluster id first."
        )
    if metadata_log_dir in missing:
        _check_is_new(files, metadata_log_dir)


def _check_is_new(files: Files, directory: str) -> None:
    """A metadata log shows that the directory was formatted before: a new id would lose its cluster."""
    path = f"{directory}/{METADATA_DIRECTORY}"
    names = files.list_directory(path) if files.is_directory(path) else []
    if any(name == QUORUM_STATE_FILE or name.endswith(LOG_SUFFIX) for name in names):
        raise DirectoryRefused(
            f"{directory} has a metadata log but no meta.properties with its cluster id and node id: restore the file "
            f"(version=1, cluster.id, node.id, directory.id), or move {METADATA_DIRECTORY} away to start a new cluster."
        )


def _directory_ids(formatted: Mapping[str, MetaProperties]) -> dict[str, Uuid]:
    ids = {directory: meta.directory_id for directory, meta in formatted.items() if meta.directory_id is not None}
    if len(set(ids.values())) < len(ids):
        raise DirectoryRefused("two data directories have the same directory.id: one is a copy of the other.")
    return ids


def _check_identity(
    directory: str, meta: MetaProperties, *, node_id: int, others: Mapping[str, MetaProperties], cluster_id: str | None
) -> None:
    if meta.node_id is not None and meta.node_id != node_id:
        raise DirectoryRefused(f"{directory} belongs to node {meta.node_id}, but this node is {node_id} (node.id)")
    expected = next((other.cluster_id for other in others.values()), cluster_id)
    if expected is not None and meta.cluster_id is not None and meta.cluster_id != expected:
        raise DirectoryRefused(f"{directory} belongs to cluster {meta.cluster_id}, not to {expected}.")
