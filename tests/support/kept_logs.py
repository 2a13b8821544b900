"""What the nodes of a cluster wrote, kept when a test fails: the cluster removes its own files at the end."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import ottla.testing

__all__ = ["copy_logs", "keep_logs"]


@contextlib.contextmanager
def keep_logs(cluster: ottla.testing.Cluster, directory: Path) -> Iterator[None]:
    """Copies every node's log into the directory when the block fails; the failure says where they are."""
    try:
        yield
    except BaseException as error:
        copy_logs(cluster, directory)
        error.add_note(f"the nodes' logs are in {directory}")
        raise


def copy_logs(cluster: ottla.testing.Cluster, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for node in cluster.nodes:
        with contextlib.suppress(FileNotFoundError):
            shutil.copyfile(node.directory / "node.log", directory / f"node-{node.node_id}.log")
