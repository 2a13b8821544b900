"""The client ids of mirrors at the cluster that they write to."""

from __future__ import annotations

__all__ = ["MIRROR_CLIENT_ID_PREFIX"]

MIRROR_CLIENT_ID_PREFIX = "__mirror/"
"""The client id of a mirror that keeps offsets: this and the mirror's name. No client has such an id by accident."""
