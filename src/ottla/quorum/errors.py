"""Errors of the metadata log."""

from __future__ import annotations

__all__ = ["MetadataLogDamagedError", "MetadataLogFailedError", "MetadataLogUnsupportedError", "NotLeaderError"]


class MetadataLogDamagedError(Exception):
    """The files contain something that a crash cannot cause. Serving them would mean serving wrong metadata."""


class MetadataLogUnsupportedError(Exception):
    """The files are intact, but this release does not support their content."""


class MetadataLogFailedError(Exception):
    """The disk failed to make entries durable. Their state is unknown, so the log takes no more entries."""


class NotLeaderError(Exception):
    """This node does not lead the quorum, or lost leadership. The next leader decides the fate of the entries."""
