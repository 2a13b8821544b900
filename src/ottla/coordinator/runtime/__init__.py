"""The coordinator runtime: decide, replay, append to the state topic, answer when committed."""

from __future__ import annotations

from ottla.coordinator.runtime.hashing import partition_for
from ottla.coordinator.runtime.record_format import RecordFormat, UnknownRecord
from ottla.coordinator.runtime.runtime import CoordinatorRuntime
from ottla.coordinator.runtime.shard import Shard, ShardSettings, ShardStatus
from ottla.coordinator.runtime.state import CoordinatorRecord, CoordinatorState

__all__ = [
    "CoordinatorRecord",
    "CoordinatorRuntime",
    "CoordinatorState",
    "RecordFormat",
    "Shard",
    "ShardSettings",
    "ShardStatus",
    "UnknownRecord",
    "partition_for",
]
