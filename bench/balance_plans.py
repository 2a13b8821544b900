"""`python -m bench.balance_plans [COUNT]`: plans for random clusters, compared with what any plan has to move.

Prints how many plans move more than 1.2 times as much, and fails if there are any. Soft goals that contradict earlier
ones may stay unreached; the bound is then for plans that are as good.
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
    beyond, unreached, violated = [], 0, 0
    for seed in range(count):
        state, goals = cluster_of(seed), default_goals()
        plan = make_plan(state, goals)
        violated += any(result.is_hard and result.violations_after for result in plan.goals)
        unreached += any(result.violations_after for result in plan.goals)
        enough = plan.size_bytes / FACTOR_MAX
        if best_bound_bytes(state, goals, plan, enough_bytes=enough) < enough:
            beyond.append(seed)
    print(f"{count} clusters; {violated} with a violated hard goal, {unreached} with an unreached soft goal")
    print(f"{len(beyond)} plans move more than {FACTOR_MAX} x what any plan has to move: seeds {beyond}")
    return 1 if beyond or violated else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
