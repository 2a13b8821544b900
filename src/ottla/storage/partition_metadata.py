"""`partition.metadata`: the topic id of a partition's directory (KIP-516).

A topic that is deleted and created again has another id, so its old records cannot come back.
"""

from __future__ import annotations

from functools import lru_cache

from ottla.model.ids import Uuid
from ottla.model.ports import Files
from ottla.storage.names import PARTITION_METADATA_FILE

__all__ = ["read_topic_id", "topic_id_if_readable", "write_topic_id"]

_VERSION = "0"


def read_topic_id(files: Files, directory: str) -> Uuid | None:
    """The topic id, or None if it was not written yet. Raises ValueError for an invalid file.

    A power loss may leave the file empty, because it is synced with the log's first flush. Empty counts as not written.
    """
    path = f"{directory}/{PARTITION_METADATA_FILE}"
    try:
        data = files.read_bytes(path)
    except FileNotFoundError:
        return None
    if not data.strip(b"\0"):
        return None
    topic_id = _parse(data)
    if topic_id is None:
        raise ValueError(f"{path} is not a partition metadata file of version {_VERSION}")
    return topic_id


def topic_id_if_readable(files: Files, directory: str) -> Uuid | None:
    """None also for a file that is invalid or cannot be read."""
    try:
        return read_topic_id(files, directory)
    except (OSError, ValueError):
        return None


@lru_cache(maxsize=256)
def _parse(data: bytes) -> Uuid | None:
    """All partitions of a topic have the same file, and share the id."""
    fields: dict[str, str] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields[name.strip()] = value.strip()
    if fields.get("version") != _VERSION or "topic_id" not in fields:
        return None
    return Uuid.parse(fields["topic_id"])


def write_topic_id(files: Files, directory: str, topic_id: Uuid) -> str:
    """Writes the file and returns its path, which the log's next flush has to sync."""
    text = f"version: {_VERSION}\ntopic_id: {topic_id}"
    path = f"{directory}/{PARTITION_METADATA_FILE}"
    files.write_atomically(path, text.encode(), durable=False)
    return path
