"""Server-side assignors: pure functions from subscriptions to assignments.

An assignor gets the members with their previous targets and the subscribed topics, and returns a target for every
member. It reads no clock and draws no random number: the same input gives the same assignment on every broker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ottla.coordinator.group.consumer.assignors.range import assign_ranges
from ottla.coordinator.group.consumer.assignors.spec import AssignmentSpec, MemberSpec, Targets, TopicSpec
from ottla.coordinator.group.consumer.assignors.uniform import assign_uniformly

__all__ = ["ASSIGNORS", "AssignmentSpec", "Assignor", "MemberSpec", "Targets", "TopicSpec"]

Assignor = Callable[[AssignmentSpec], Targets]

ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniformly, "range": assign_ranges}
