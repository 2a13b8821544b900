"""The log directories and their replicas in DescribeLogDirs."""

from __future__ import annotations

from typing import NamedTuple

from ottla.model.ids import TopicPartition, Uuid

__all__ = ["DirectoryDescription", "ReplicaDescription"]


class ReplicaDescription(NamedTuple):
    topic_partition: TopicPartition
    size_bytes: int
    offset_lag: int
    is_future: bool


class DirectoryDescription(NamedTuple):
    path: str
    directory_id: Uuid
    error: OSError | None
    total_bytes: int
    usable_bytes: int
    replicas: list[ReplicaDescription]
