"""The coordinator runtime: decide, append to the state topic, replay, answer when committed."""

from __future__ import annotations

from ottla.coordinator.runtime.decision import (
    CoordinatorRecord,
    CoordinatorState,
    Decide,
    Decision,
    Question,
    RecordRun,
)
from ottla.coordinator.runtime.hashing import partition_for
from ottla.coordinator.runtime.record_format import RecordFormat, UnknownRecord
from ottla.coordinator.runtime.runtime import CoordinatorRuntime
from ottla.coordinator.runtime.shard import Shard, ShardSettings, ShardStatus
from ottla.coordinator.runtime.status import UnknownOutcome
from ottla.coordinator.runtime.timers import Timers

__all__ = [
    "CoordinatorRecord",
    "CoordinatorRuntime",
    "CoordinatorState",
    "Decide",
    "Decision",
    "Question",
    "RecordFormat",
    "RecordRun",
    "Shard",
    "ShardSettings",
    "ShardStatus",
    "Timers",
    "UnknownOutcome",
    "UnknownRecord",
    "partition_for",
]
