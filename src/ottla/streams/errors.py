"""Errors of streams applications. A message says what is wrong and what to change."""

from __future__ import annotations

__all__ = [
    "FailedProcessingError",
    "MissingSourceTopicError",
    "ShutdownRequestedError",
    "StoreNotFoundError",
    "StreamsError",
    "TopologyError",
]


class StreamsError(Exception):
    """A streams application cannot continue."""


class FailedProcessingError(StreamsError):
    """A record could not be read, processed or written, and its exception handler chose to fail."""


class ShutdownRequestedError(StreamsError):
    """Another instance of the application has requested that all instances shut down."""


class MissingSourceTopicError(StreamsError):
    """A topic that the application reads was deleted."""


class TopologyError(StreamsError):
    """A topology is not valid."""


class StoreNotFoundError(StreamsError):
    """A processor asked for a store that is not connected to it."""
