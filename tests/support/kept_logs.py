"""Keeps the logs of a cluster's nodes when a test fails, because the cluster removes its files at the end."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

import ottla.testing

__all__ = ["copy_logs", "keep_logs"]


@contextlib.contextmanager
def keep_logs(cluster: ottla.testing.Cluster, directory: Path) -> Iterator[None]:
    """Copies every node's log to the directory if the block fails; the failure has a note with its path."""
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
