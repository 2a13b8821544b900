"""`partition.metadata`: the topic id a partition's directory belongs to (KIP-516).

A topic deleted and created again under the same name has another id, so its old records cannot come back.
"""

from __future__ import annotations

from ottla.model.ids import Uuid
from ottla.model.ports import Files
from ottla.storage.names import PARTITION_METADATA_FILE

__all__ = ["read_topic_id", "write_topic_id"]

_VERSION = "0"


def read_topic_id(files: Files, directory: str) -> Uuid | None:
    """The topic id, or None where none was written yet; raises ValueError for a file that says something else.

    A power cut may leave the file empty: that is "not yet", since it is synced with the log's first flush.
    """
    path = f"{directory}/{PARTITION_METADATA_FILE}"
    data = files.read_bytes(path) if files.exists(path) else b""
    if not data.strip(b"\0"):
        return None
    fields: dict[str, str] = {}
    for line in data.decode("utf-8", "replace").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields[name.strip()] = value.strip()
    if fields.get("version") != _VERSION or "topic_id" not in fields:
        raise ValueError(f"{path} is not a partition metadata file of version {_VERSION}")
    return Uuid.parse(fields["topic_id"])


def write_topic_id(files: Files, directory: str, topic_id: Uuid) -> str:
    """Writes the file and returns its path, to be synced with the log's next flush."""
    text = f"version: {_VERSION}\ntopic_id: {topic_id}"
    path = f"{directory}/{PARTITION_METADATA_FILE}"
    files.write_atomically(path, text.encode(), durable=False)
    return path
