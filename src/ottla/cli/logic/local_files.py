"""Facts about a path, if it exists on this machine."""

from __future__ import annotations

import os

__all__ = ["mount_options"]


def mount_options(path: str, *, mounts: str = "/proc/mounts") -> list[str]:
    """The mount options of a path's file system; empty if they are unknown."""
    if not os.path.exists(path) or not os.path.exists(mounts):
        return []
    best, options = "", ""
    real = os.path.realpath(path)
    with open(mounts, encoding="utf-8", errors="replace") as file:
        for line in file:
            words = line.split()
            if len(words) < 4:
                continue
            point = words[1].replace("\\040", " ")
            inside = real == point or real.startswith(point.rstrip("/") + "/")
            if inside and len(point) >= len(best):
                best, options = point, words[3]
    return options.split(",") if options else []
