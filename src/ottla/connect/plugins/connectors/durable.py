"""Atomic and durable changes of files."""

from __future__ import annotations

import contextlib
import os
import uuid
from pathlib import Path

__all__ = ["create_durably", "sync_directory", "sync_tree", "write_durably"]


def write_durably(path: Path, text: str) -> None:
    """Replaces a file atomically and durably."""
    temporary = _written(path, text)
    temporary.replace(path)
    sync_directory(path.parent)


def create_durably(path: Path, text: str) -> None:
    """Creates a file atomically and durably; an existing file stays unchanged."""
    temporary = _written(path, text)
    with contextlib.suppress(FileExistsError):
        path.hardlink_to(temporary)
    temporary.unlink()
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def sync_tree(path: Path) -> None:
    """Syncs a directory and everything below it."""
    for entry in path.rglob("*"):
        if entry.is_dir():
            sync_directory(entry)
        else:
            with entry.open("rb") as file:
                os.fsync(file.fileno())
    sync_directory(path)
    sync_directory(path.parent)


def _written(path: Path, text: str) -> Path:
    temporary = path.with_name(f"{path.name}.{uuid.uuid4().hex[:12]}.new")
    with temporary.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return temporary
