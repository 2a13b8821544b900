"""`python -m bench`: Apache Kafka and Ottla, the same client, alternating, medians of at least three runs."""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from bench import clients
from bench.cases import Case, full_cases, quick_cases, topic
from bench.lifecycle import GROUP, NAME
from bench.report import print_header, print_result, print_summary, write_chart, write_json
from bench.runner import OURS, PEER, CaseFailedError, Result, run_case, run_lifecycle
from tests.support.brokers import ApacheKafka, Broker, OttlaNode
from tests.support.java import unavailable_reason

__all__ = ["main"]

DOCS = Path(__file__).resolve().parent.parent / "docs" / "bench"
# Deleted topics give their space back soon, or a full run would fill the disk; both wait the same.
SETTINGS = {"log.segment.delete.delay.ms": "1000"}


def main() -> int:
    options = parse_arguments()
    if reason := unavailable_reason():
        print(f"bench: {reason}")
        return 1
    cases = [
        case for case in (quick_cases() if options.quick else full_cases()) if wanted(options, case.group, case.name)
    ]
    results: list[Result] = []
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ottla-bench-") as scratch:
        makers: dict[str, Callable[[Path], Broker]] = {
            PEER: lambda directory: ApacheKafka(directory, SETTINGS),
            OURS: lambda directory: (ApacheKafka if options.peer_only else OttlaNode)(directory, SETTINGS),
        }
        print_header()
        if wanted(options, GROUP, NAME):
            results.append(run_lifecycle(makers, Path(scratch), runs=options.runs))
            print_result(results[-1])
        with ExitStack() as stack:
            if cases:
                brokers = {who: stack.enter_context(make(Path(scratch) / who)) for who, make in makers.items()}
                results += run_all(cases, brokers, runs=options.runs)
    print_summary(results)
    print(f"{time.monotonic() - started:.0f} s")
    name = "quick" if options.quick else "full"
    write_json(results, options.output / f"{name}.json", mode=name, runs=options.runs)
    write_chart(results, options.output / f"{name}.svg")
    print(f"Written: {options.output / name}.json and .svg")
    return 1 if any(result.error for result in results) else 0


def run_all(cases: list[Case], brokers: dict[str, Broker], *, runs: int) -> list[Result]:
    results = []
    with clients.opened() as opened:
        warm_up(brokers, opened)
        for case in cases:
            try:
                result = run_case(case, brokers, opened, runs=runs)
            except CaseFailedError as error:
                # One case that cannot be measured is reported; the others still are.
                result = Result(case.group, case.name, error=str(error))
            results.append(result)
            print_result(result)
    return results


def warm_up(brokers: dict[str, Broker], opened: clients.Clients) -> None:
    """A JVM is slow at first, the client's as the peer's; what is measured is how they run, not how they warm up."""
    for _ in range(4):
        for broker in brokers.values():
            with topic(broker, 6) as name:
                settings = {"acks": "1", "batch.size": "16384", "linger.ms": "5"}
                opened.java_produce(broker.bootstrap, name, records=600_000, record_size=100, settings=settings)
                opened.java_consume(broker.bootstrap, name, partitions=6, records=600_000)


def wanted(options: argparse.Namespace, group: str, name: str) -> bool:
    return re.search(options.only, f"{group}: {name}") is not None


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="every axis, not every combination: about five minutes")
    parser.add_argument("--runs", type=int, default=3, help="runs of each case on each broker (default: 3)")
    parser.add_argument("--only", default="", metavar="PATTERN", help="cases whose name matches")
    parser.add_argument("--output", type=Path, default=DOCS, help="where JSON and chart go (default: docs/bench)")
    parser.add_argument(
        "--peer-only", action="store_true", help="Apache Kafka against itself: how noisy is the machine?"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
