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
    """The topic id, or None where none was written yet; raises ValueError for a file that says something else."""
    path = f"{directory}/{PARTITION_METADATA_FILE}"
    if not files.exists(path):
        return None
    fields: dict[str, str] = {}
    for line in files.read_bytes(path).decode("utf-8", "replace").splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields[name.strip()] = value.strip()
    if fields.get("version") != _VERSION or "topic_id" not in fields:
        raise ValueError(f"{path} is not a partition metadata file of version {_VERSION}")
    return Uuid.parse(fields["topic_id"])


def write_topic_id(files: Files, directory: str, topic_id: Uuid) -> None:
    text = f"version: {_VERSION}\ntopic_id: {topic_id}"
    files.write_atomically(f"{directory}/{PARTITION_METADATA_FILE}", text.encode(), durable=False)
