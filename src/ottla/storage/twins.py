"""A partition that a start finds in two log directories: which of the two copies is left out."""

from __future__ import annotations

from ottla.model.ids import TopicPartition
from ottla.model.ports import Files
from ottla.storage.directories import LogDirectory
from ottla.storage.errors import DirectoryRefused
from ottla.storage.names import LOG_SUFFIX
from ottla.storage.partition_metadata import topic_id_if_readable

__all__ = ["copy_without_records"]


def copy_without_records(
    files: Files, topic_partition: TopicPartition, first: LogDirectory, second: LogDirectory
) -> LogDirectory:
    """The directory whose copy has never had a record. Raises DirectoryRefused if the operator has to choose."""
    paths = [f"{directory.path}/{topic_partition}" for directory in (first, second)]
    first_id, second_id = (topic_id_if_readable(files, path) for path in paths)
    if first_id and second_id and first_id != second_id:
        # An empty log may be the current one: the metadata is not known yet.
        raise DirectoryRefused(
            f"{topic_partition} is in both {first.path} and {second.path}, with topic id {first_id} in {first.path} "
            f"and {second_id} in {second.path}. The topic was probably deleted and created again while a disk was "
            f"out of service: remove the copy of the deleted topic, probably the one on that disk."
        )
    if not _has_log_file(files, paths[1]):
        return second
    if not _has_log_file(files, paths[0]):
        return first
    raise DirectoryRefused(
        f"{topic_partition} is in both {first.path} and {second.path}. A failing disk has probably interrupted a move "
        f"between them: remove one of the two copies, preferably the one on the failed disk."
    )


def _has_log_file(files: Files, path: str) -> bool:
    """True if the log may have had a record. The first record creates the first `.log` file.

    A log without such a file may have been in service, so its path may be used again.
    """
    try:
        names = files.list_directory(path)
    except OSError:
        # Unknown: the operator has to decide.
        return True
    return any(LOG_SUFFIX in name for name in names)
