"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["write_durably"]


def write_durably(path: Path, text: str) -> None:
    """A file that is there as a whole or not at all, whatever happens."""
    temporary = path.with_name(path.name + ".new")
    with temporary.open("w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
