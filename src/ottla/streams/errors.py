"""Errors of streams applications. A message says what is wrong and what to change."""

from __future__ import annotations

__all__ = ["StoreNotFoundError", "StreamsError", "TopologyError"]


class StreamsError(Exception):
    """A streams application cannot continue."""


class TopologyError(StreamsError):
    """A topology is not valid."""


class StoreNotFoundError(StreamsError):
    """A processor asked for a store that is not connected to it."""
