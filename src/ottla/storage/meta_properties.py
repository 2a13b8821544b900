"""`meta.properties`: which cluster and node a data directory belongs to, and the directory's own id (KIP-858).

It is the first thing read of a directory and the last thing written when it is formatted: a directory without it is
new. Version 1 is what KRaft clusters have; version 0 came with ZooKeeper and cannot be used.
"""

from __future__ import annotations

from typing import NamedTuple

from ottla.model.config import format_properties, parse_properties
from ottla.model.ids import Uuid
from ottla.model.ports import Files
from ottla.storage.names import META_PROPERTIES_FILE

__all__ = ["InvalidMetaPropertiesError", "MetaProperties", "read_meta_properties", "write_meta_properties"]


class InvalidMetaPropertiesError(Exception):
    """The file is there, but the directory cannot be used with what it says."""


class MetaProperties(NamedTuple):
    cluster_id: str
    node_id: int
    # Directories formatted before release 3.7 have none until they are opened.
    directory_id: Uuid | None


def read_meta_properties(files: Files, directory: str) -> MetaProperties | None:
    """What the directory says of itself; None when it is new."""
    path = f"{directory}/{META_PROPERTIES_FILE}"
    if not files.exists(path):
        return None
    try:
        values = parse_properties(files.read_bytes(path).decode("utf-8"))
        if values.get("version") != "1":
            raise ValueError(f"its version is {values.get('version')!r}, only version 1 can be read")
        node_id = int(values.get("node.id") or values["broker.id"])
        directory_id = Uuid.parse(values["directory.id"]) if "directory.id" in values else None
        return MetaProperties(values["cluster.id"], node_id, directory_id)
    except KeyError as error:
        raise InvalidMetaPropertiesError(f"{path} has no {error.args[0]}") from error
    except ValueError as error:
        raise InvalidMetaPropertiesError(f"{path} cannot be used: {error}") from error


def write_meta_properties(files: Files, directory: str, meta: MetaProperties) -> None:
    values = {"version": "1", "cluster.id": meta.cluster_id, "node.id": str(meta.node_id)}
    if meta.directory_id is not None:
        values["directory.id"] = str(meta.directory_id)
    text = "#\n" + format_properties(values)
    files.write_atomically(f"{directory}/{META_PROPERTIES_FILE}", text.encode("utf-8"))
