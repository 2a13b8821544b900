"""The command line: runs one seed with details, or many seeds on several cores.

    python -m ottla.sim --seed 7              one run, with a summary; --trace prints every event
    python -m ottla.sim --seeds 1000          many runs, from seed --from on; exits with 1 at the first failure
    python -m ottla.sim --plan FILE           one run of the plan in the file; several files can be given
    python -m ottla.sim --steps               a kill at every step of a transaction, for both versions of transactions
    make sim SEEDS=1000

Every failure is printed with the commands that repeat it: by its seed, and by its plan. The plan is written to a file
and stays the same when the drawing of plans changes.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import gettempdir

from ottla.sim.faults.schedule import FAULTS
from ottla.sim.plans import Plan, plan_from_json, plan_of, plan_to_json, step_plans
from ottla.sim.scenario import Additions, Outcome, run_plan

__all__ = ["Runs", "main"]

FINDINGS_SHOWN_MAX = 10

HASH_SEED = "0"


# Functions with a name, because they travel to the processes of a pool.
def _unchanged(plan: Plan) -> Plan:
    return plan


def _nothing_more(_plan: Plan) -> Additions:
    return Additions()


@dataclass(frozen=True, slots=True, kw_only=True)
class Runs:
    """What the command runs: `program` is the module behind `python -m`."""

    program: str = "ottla.sim"
    # Changes a plan after it was drawn.
    change: Callable[[Plan], Plan] = _unchanged
    additions: Callable[[Plan], Additions] = _nothing_more


def main(arguments: Sequence[str] | None = None, runs: Runs | None = None) -> None:
    runs = runs or Runs()
    options = _parse(arguments, runs.program)
    options.runs = runs
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        # Metadata images are iterated in hash order, which Python randomizes for every process.
        command_arguments = sys.argv[1:] if arguments is None else list(arguments)
        command = [sys.executable, "-m", runs.program, *command_arguments]
        os.execve(sys.executable, command, {**os.environ, "PYTHONHASHSEED": HASH_SEED})
    if options.seed is not None or len(options.plan) == 1:
        sys.exit(_run_one(options))
    sys.exit(_run_many(options))


def _parse(arguments: Sequence[str] | None, program: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog=f"python -m {program}", description="Whole clusters on virtual time, replayable from a seed."
    )
    parser.add_argument("--seed", type=int, help="run this one seed")
    parser.add_argument("--seeds", type=int, default=100, help="the number of seeds to run")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first seed")
    parser.add_argument("--plan", nargs="+", default=[], metavar="FILE", help="run the plans in these files")
    parser.add_argument("--steps", action="store_true", help="kill at every step of a transaction")
    parser.add_argument("--every", type=int, default=1, help="with --steps: only every n-th step")
    parser.add_argument(
        "--plans-to", metavar="DIRECTORY", default=gettempdir(), help="where to write the plans of failed runs"
    )
    parser.add_argument("--only", help="run only these seeds, as in 3,14,15")
    parser.add_argument("--nodes", type=int, help="number of nodes; default: drawn from the seed")
    parser.add_argument("--controllers", type=int, help="number of controllers; default: drawn from the seed")
    parser.add_argument("--seconds", type=float, help="virtual seconds with faults; default: drawn from the seed")
    parser.add_argument("--faults", help=f"none, all, or some of: {', '.join(FAULTS)}; default: drawn from the seed")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1), help="number of parallel runs")
    parser.add_argument("--keep-going", action="store_true", help="continue after a failure")
    parser.add_argument("--trace", action="store_true", help="print every event")
    return parser.parse_args(arguments)


def _plan(options: argparse.Namespace, seed: int) -> Plan:
    faults: list[str] | None = None
    if options.faults is not None:
        names = {"none": [], "all": list(FAULTS)}
        faults = names.get(options.faults, [name.strip() for name in options.faults.split(",")])
    plan = plan_of(seed, nodes=options.nodes, controllers=options.controllers, seconds=options.seconds, faults=faults)
    changed: Plan = options.runs.change(plan)
    return changed


def _command(options: argparse.Namespace, seed: int) -> str:
    overrides = [
        f"--{name} {value!r}" if isinstance(value, str) else f"--{name} {value}"
        for name in ("nodes", "controllers", "seconds", "faults")
        if (value := getattr(options, name)) is not None
    ]
    return " ".join([f"python -m {options.runs.program} --seed", str(seed), *overrides])


def _run_one(options: argparse.Namespace) -> int:
    plan = _plans(options)[0]
    print(plan)
    started = time.perf_counter()
    outcome = run_plan(plan, on_trace=print if options.trace else None, additions=options.runs.additions(plan))
    seconds = time.perf_counter() - started
    print(_coverage(outcome.counts))
    print(
        f"{outcome.virtual_seconds:.0f} virtual seconds, {outcome.events} events in {seconds:.2f} s, "
        f"digest {outcome.digest:016x}"
    )
    _print_findings(outcome)
    if not outcome.is_good and not options.plan:
        print(f"plan written; repeat the run with: {_write_plan(options, plan)}")
    return 0 if outcome.is_good else 1


def _run_many(options: argparse.Namespace) -> int:
    started = time.perf_counter()
    counts: Counter[str] = Counter()
    done = failures = 0
    total = len(_plans(options))
    virtual_seconds = 0.0
    shown = started
    for plan, outcome in _outcomes(options):
        done += 1
        counts.update(outcome.counts)
        virtual_seconds += outcome.virtual_seconds
        if not outcome.is_good:
            failures += 1
            print(f"\nseed {outcome.seed} failed; repeat it with: {_command(options, outcome.seed)}")
            print(f"after a change to the drawing of plans, repeat it with: {_write_plan(options, plan)}")
            _print_findings(outcome)
            if not options.keep_going:
                break
        if time.perf_counter() - shown > 1 or done == total:
            shown = time.perf_counter()
            rate = done / (shown - started)
            print(
                f"\r{done} of {total} seeds, {rate:.1f} per second, {failures} failed",
                end="",
                flush=True,
            )
    seconds = time.perf_counter() - started
    print(f"\n{_coverage(counts)}")
    print(f"{done} seeds, {virtual_seconds / 60:.0f} virtual minutes in {seconds:.0f} s: {failures} failed")
    return 1 if failures else 0


def _outcomes(options: argparse.Namespace) -> Iterator[tuple[Plan, Outcome]]:
    plans = _plans(options)
    run = partial(_run, options.runs)
    if options.processes <= 1:
        yield from map(run, plans)
        return
    with get_context("fork").Pool(options.processes) as pool:
        yield from pool.imap_unordered(run, plans)


def _plans(options: argparse.Namespace) -> Sequence[Plan]:
    if options.plan:
        return [plan_from_json(Path(name).read_text()) for name in options.plan]
    if options.steps:
        return step_plans(every=options.every)
    if options.seed is not None:
        return [_plan(options, options.seed)]
    if options.only is not None:
        return [_plan(options, int(seed)) for seed in options.only.split(",")]
    return [_plan(options, seed) for seed in range(options.first, options.first + options.seeds)]


def _run(runs: Runs, plan: Plan) -> tuple[Plan, Outcome]:
    return plan, run_plan(plan, ends_at_finding=True, additions=runs.additions(plan))


def _write_plan(options: argparse.Namespace, plan: Plan) -> str:
    """Writes the plan to a file. Returns the command that runs it."""
    path = Path(options.plans_to) / f"ottla-sim-{plan.seed}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(plan_to_json(plan))
    return f"python -m {options.runs.program} --plan {path}"


def _print_findings(outcome: Outcome) -> None:
    for finding in outcome.findings[:FINDINGS_SHOWN_MAX]:
        print(f"  {finding}")
    if len(outcome.findings) > FINDINGS_SHOWN_MAX:
        print(f"  and {len(outcome.findings) - FINDINGS_SHOWN_MAX} more")


def _coverage(counts: Counter[str]) -> str:
    return "covered: " + ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
