"""Runs seeds: one, to look at it, or many, on several processor cores.

    python -m ottla.sim --seed 7              one run, with a summary; --trace prints every event
    python -m ottla.sim --seeds 1000          many runs from --from on; ends at once with 1 when one of them fails
    python -m ottla.sim --plan FILE           one run as the file says; several files may be named
    python -m ottla.sim --steps               a kill at every step of a transaction, for both versions of transactions
    make sim SEEDS=1000

Every failure is printed with the commands that repeat it: by its seed, and by its plan, which is written to a file
and stays the same run when the drawing of plans changes.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path
from tempfile import gettempdir

from ottla.sim.faults.schedule import FAULTS
from ottla.sim.plans import Plan, plan_from_json, plan_of, plan_to_json, step_plans
from ottla.sim.scenario import Outcome, run_plan

__all__ = ["main"]

FINDINGS_SHOWN_MAX = 10

HASH_SEED = "0"


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parse(arguments)
    if os.environ.get("PYTHONHASHSEED") != HASH_SEED:
        # Images of metadata are walked in the order of hashes, which Python chooses anew for every process.
        given = sys.argv[1:] if arguments is None else list(arguments)
        command = [sys.executable, "-m", "ottla.sim", *given]
        os.execve(sys.executable, command, {**os.environ, "PYTHONHASHSEED": HASH_SEED})
    if options.seed is not None or len(options.plan) == 1:
        sys.exit(_run_one(options))
    sys.exit(_run_many(options))


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m ottla.sim", description="Whole clusters on virtual time, replayable from a seed."
    )
    parser.add_argument("--seed", type=int, help="run this one seed")
    parser.add_argument("--seeds", type=int, default=100, help="run so many seeds")
    parser.add_argument("--from", dest="first", type=int, default=0, help="the first of them")
    parser.add_argument("--plan", nargs="+", default=[], metavar="FILE", help="run plans that were kept")
    parser.add_argument("--steps", action="store_true", help="kill at every step of a transaction")
    parser.add_argument("--every", type=int, default=1, help="only every n-th of these steps")
    parser.add_argument("--plans-to", metavar="DIRECTORY", default=gettempdir(), help="where plans that failed go")
    parser.add_argument("--only", help="run just these seeds, as in 3,14,15")
    parser.add_argument("--nodes", type=int, help="instead of what the seed says")
    parser.add_argument("--controllers", type=int, help="instead of what the seed says")
    parser.add_argument("--seconds", type=float, help="virtual seconds of trouble, instead of what the seed says")
    parser.add_argument("--faults", help=f"instead of what the seed says: some of {', '.join(FAULTS)}; or none, or all")
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1), help="seeds run at a time")
    parser.add_argument("--keep-going", action="store_true", help="do not end at the first failure")
    parser.add_argument("--trace", action="store_true", help="print what happens")
    return parser.parse_args(arguments)


def _plan(options: argparse.Namespace, seed: int) -> Plan:
    faults: list[str] | None = None
    if options.faults is not None:
        names = {"none": [], "all": list(FAULTS)}
        faults = names.get(options.faults, [name.strip() for name in options.faults.split(",")])
    return plan_of(seed, nodes=options.nodes, controllers=options.controllers, seconds=options.seconds, faults=faults)


def _command(options: argparse.Namespace, seed: int) -> str:
    given = [
        f"--{name} {value!r}" if isinstance(value, str) else f"--{name} {value}"
        for name in ("nodes", "controllers", "seconds", "faults")
        if (value := getattr(options, name)) is not None
    ]
    return " ".join(["python -m ottla.sim --seed", str(seed), *given])


def _run_one(options: argparse.Namespace) -> int:
    plan = _plans(options)[0]
    print(plan)
    started = time.perf_counter()
    outcome = run_plan(plan, on_trace=print if options.trace else None)
    seconds = time.perf_counter() - started
    print(_covered(outcome.counts))
    print(
        f"{outcome.virtual_seconds:.0f} virtual seconds, {outcome.events} events in {seconds:.2f} s, "
        f"digest {outcome.digest:016x}"
    )
    _print_findings(outcome)
    if not outcome.is_good and not options.plan:
        print(f"kept; repeat it with: {_keep(options, plan)}")
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
            print(f"as long as plans are drawn as they are, and always with: {_keep(options, plan)}")
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
    print(f"\n{_covered(counts)}")
    print(f"{done} seeds, {virtual_seconds / 60:.0f} virtual minutes in {seconds:.0f} s: {failures} failed")
    return 1 if failures else 0


def _outcomes(options: argparse.Namespace) -> Iterator[tuple[Plan, Outcome]]:
    plans = _plans(options)
    if options.processes <= 1:
        yield from map(_run, plans)
        return
    with get_context("fork").Pool(options.processes) as pool:
        yield from pool.imap_unordered(_run, plans)


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


def _run(plan: Plan) -> tuple[Plan, Outcome]:
    return plan, run_plan(plan, ends_at_finding=True)


def _keep(options: argparse.Namespace, plan: Plan) -> str:
    """Writes the plan down; returns the command that runs it."""
    path = Path(options.plans_to) / f"ottla-sim-{plan.seed}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(plan_to_json(plan))
    return f"python -m ottla.sim --plan {path}"


def _print_findings(outcome: Outcome) -> None:
    for finding in outcome.findings[:FINDINGS_SHOWN_MAX]:
        print(f"  {finding}")
    if len(outcome.findings) > FINDINGS_SHOWN_MAX:
        print(f"  and {len(outcome.findings) - FINDINGS_SHOWN_MAX} more")


def _covered(counts: Counter[str]) -> str:
    return "covered: " + ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
