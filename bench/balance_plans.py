"""`python -m bench.balance_plans [COUNT [FIRST]]`: plans for random clusters, compared with what any plan has to move.

Prints which plans move more than 1.2 times as much, and fails if one of them does by more than its largest replica: the
bound divides replicas, a plan cannot. Soft goals may stay unreached, because racks do not allow them (the plan says so)
or because no swap was found; the bound is then for plans that are as good.
"""

from __future__ import annotations

import sys

from ottla.balance.goals import default_goals
from ottla.balance.planner import make_plan
from ottla.balance.tight_bound import best_bound_bytes
from tests.unit.balance.clusters import cluster_of

__all__ = ["main"]

COUNT = 2_000
FACTOR_MAX = 1.2


def main(arguments: list[str]) -> int:
    count = int(arguments[0]) if arguments else COUNT
    first = int(arguments[1]) if arguments[1:] else 0
    beyond, not_found, unreached, violated, is_bad = [], [], 0, 0, False
    for seed in range(first, first + count):
        state, goals = cluster_of(seed), default_goals()
        plan = make_plan(state, goals)
        violated += any(result.is_hard and result.violations_after for result in plan.goals)
        unreached_goals = [result for result in plan.goals if result.violations_after]
        unreached += bool(unreached_goals)
        not_found += [
            f"{seed} ({result.goal})" for result in unreached_goals if not result.left[0].startswith("no plan")
        ][:1]
        enough = plan.size_bytes / FACTOR_MAX
        bound = best_bound_bytes(state, goals, plan, enough_bytes=enough)
        if bound < enough:
            beyond.append(f"{seed} ({plan.size_bytes / bound:.2f} x)")
            largest = max(partition.size_bytes for partition in state.partitions.values())
            is_bad = is_bad or plan.size_bytes > FACTOR_MAX * bound + largest
    print(f"{count} clusters; {violated} with a violated hard goal, {unreached} with an unreached soft goal")
    print(
        f"{unreached - len(not_found)} because of racks, {len(not_found)} not found: {', '.join(not_found) or 'none'}"
    )
    seeds = ", ".join(beyond) or "none"
    print(f"{len(beyond)} plans move more than {FACTOR_MAX} x what any plan has to move; seeds: {seeds}")
    return 1 if is_bad or violated else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
