"""What wants to know how far a stream has come: consumer groups that show it, for one.

A hook lives in the process that plans a query's batches, beside the reader. It is told of every offset that is done:
all records before it have been written, and Spark will not ask for them again. Spark itself tells a source so only
when it plans the next batch that has records; here a hook is told at the next look for new records, so that a query
that has caught up is also seen to have.
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
        """Where a new query begins, for as many of the partitions as are known (`startingOffsets=committed`)."""

    def done(self, offset: SourceOffset) -> None:
        """Everything before the offset is done. Called for each offset once, in order; an error fails the query."""

    def stop(self) -> None:
        """The query ends."""


def hooks_of(options: SourceOptions) -> list[ProgressHook]:
    """The hooks that a query's options ask for."""
    if options.group_id is None:
        return []
    from ottla.spark.groups import GroupHook

    return [GroupHook(options)]
