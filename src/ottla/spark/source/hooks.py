"""Hooks that follow the progress of a stream, such as consumer groups that show it.

A hook lives beside the reader, in the process that plans a query's batches. It is called for every completed offset:
all records before it have been written, and Spark will not request them again. Spark itself reports completion only
when it plans the next batch with records. Hooks are called at the next look for new records, so that a query that has
caught up shows no lag.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from ottla.model.ids import TopicPartition
from ottla.spark.options import SourceOptions
from ottla.spark.source.offsets import SourceOffset

__all__ = ["ProgressHook", "hooks_of"]


class ProgressHook(Protocol):
    def starting(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
        """The start offsets of a new query, for partitions with a known one (`startingOffsets=committed`)."""

    def done(self, offset: SourceOffset) -> None:
        """All records before the offset are done. Called once for every offset, in order; an error fails the query."""

    def stop(self) -> None:
        """Called when the query ends."""


def hooks_of(options: SourceOptions) -> list[ProgressHook]:
    """The hooks that a query's options ask for."""
    if options.group_id is None:
        return []
    from ottla.spark.groups import GroupHook

    return [GroupHook(options)]
