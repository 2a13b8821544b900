"""Groups and their offsets: everything that lives in `__consumer_offsets`."""

from __future__ import annotations

__all__ = ["OFFSETS_TOPIC"]

OFFSETS_TOPIC = "__consumer_offsets"
