"""The newest offset of every key, in C where it was compiled. See README.md."""

from __future__ import annotations

try:
    from ottla.storage.cleaner.newest._native import ENTRY_BYTES, NewestOffsets
except ImportError:
    from ottla.storage.cleaner.newest.twin import ENTRY_BYTES, NewestOffsets  # type: ignore[assignment]

    COMPILED = False
else:
    COMPILED = True

__all__ = ["COMPILED", "ENTRY_BYTES", "NewestOffsets"]
