"""`meta.properties`: the cluster and the node that a log directory belongs to (KIP-631, KIP-858)."""

from __future__ import annotations

from ottla.model.config import format_properties, parse_properties
from ottla.model.ids import Uuid
from ottla.model.ports import Files
from ottla.model.values import Value
from ottla.storage.errors import DirectoryRefused
from ottla.storage.names import META_PROPERTIES_FILE

__all__ = ["MetaProperties", "read_meta_properties", "write_meta_properties"]

_VERSION = "1"


class MetaProperties(Value):
    cluster_id: str | None
    node_id: int | None
    directory_id: Uuid | None


def read_meta_properties(files: Files, directory: str) -> MetaProperties | None:
    """The content of the file; None if there is no file. Raises DirectoryRefused if it cannot be read."""
    path = f"{directory}/{META_PROPERTIES_FILE}"
    if not files.exists(path):
        return None
    properties = parse_properties(files.read_bytes(path).decode("utf-8", "replace"))
    version = properties.get("version")
    if version not in ("0", _VERSION):
        raise DirectoryRefused(f"{path} has version {version}; this release knows version {_VERSION}.")
    # Version 0 was written by nodes with ZooKeeper: the same content, under an older key.
    node_id = properties.get("node.id", properties.get("broker.id"))
    directory_id = properties.get("directory.id")
    try:
        return MetaProperties(
            cluster_id=properties.get("cluster.id"),
            node_id=int(node_id) if node_id is not None else None,
            directory_id=Uuid.parse(directory_id) if directory_id is not None else None,
        )
    except ValueError as error:
        raise DirectoryRefused(f"{path} cannot be read: {error}.") from None


def write_meta_properties(files: Files, directory: str, properties: MetaProperties) -> None:
    fields = {
        "cluster.id": properties.cluster_id,
        "directory.id": properties.directory_id,
        "node.id": properties.node_id,
        "version": _VERSION,
    }
    text = "#\n" + format_properties({name: str(value) for name, value in fields.items() if value is not None})
    files.write_atomically(f"{directory}/{META_PROPERTIES_FILE}", text.encode())
