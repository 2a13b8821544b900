"""What can be wrong with the metadata log."""

from __future__ import annotations

__all__ = ["MetadataLogDamagedError", "MetadataLogFailedError", "MetadataLogUnsupportedError", "NotLeaderError"]


class MetadataLogDamagedError(Exception):
    """The files hold something that a crash cannot explain; serving on would mean serving wrong metadata."""


class MetadataLogUnsupportedError(Exception):
    """The files are sound, but say something this release cannot take part in."""


class MetadataLogFailedError(Exception):
    """The disk refused to make entries durable. What became of them is unknown, so the log takes no more."""


class NotLeaderError(Exception):
    """This node does not lead the quorum, or no longer: another may, and what became of the entries is its to say."""
