"""Consumer groups: no partition has two owners in one generation, and no committed offset is lost or moved back."""

from __future__ import annotations

from collections import defaultdict

from ottla.model.ids import TopicPartition
from ottla.sim.checkers.checker import Checker
from ottla.sim.history import Commit

__all__ = ["CommittedOffsets", "OneOwner"]


class OneOwner(Checker):
    rule = "one owner per partition and generation"

    def finish(self) -> None:
        owners: dict[tuple[str, int, TopicPartition], str] = {}
        for assignment in self.history.assignments:
            for partition in sorted(assignment.partitions):
                key = (assignment.group, assignment.generation, partition)
                owner = owners.setdefault(key, assignment.member)
                if owner != assignment.member:
                    self.report(
                        f"{partition} belongs to {owner} and to {assignment.member} "
                        f"in generation {assignment.generation} of {assignment.group}"
                    )


class CommittedOffsets(Checker):
    """OffsetFetch never answers less than an offset whose commit was acknowledged before the request.

    An offset whose commit was not answered may appear at any time, even after a later commit, because the request may
    have been delayed.
    """

    rule = "committed offsets stay"

    def finish(self) -> None:
        commits: dict[tuple[str, TopicPartition], list[Commit]] = defaultdict(list)
        uncertain: dict[tuple[str, TopicPartition], set[int]] = defaultdict(set)
        for commit in self.history.commits:
            commits[commit.group, commit.partition].append(commit)
        for commit in self.history.uncertain_commits:
            uncertain[commit.group, commit.partition].add(commit.offset)
        for fetched in self.history.fetched_commits:
            key = (fetched.group, fetched.partition)
            least = max(
                (commit.offset for commit in commits[key] if commit.acknowledged_us <= fetched.asked_us), default=-1
            )
            if fetched.offset < least and fetched.offset not in uncertain[key]:
                self.report(
                    f"{fetched.group} {fetched.partition}: offset {least} was committed, "
                    f"but OffsetFetch answered {fetched.offset} at {fetched.acknowledged_us / 1_000_000:.3f} s"
                )
