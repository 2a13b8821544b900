"""`python -m bench`: Apache Kafka and Ottla, the same client, alternating, medians of at least three runs."""

from __future__ import annotations

import argparse
import compileall
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import cycle
from pathlib import Path

from bench import (
    clients,
    crowd,
    encryption,
    groups,
    lake,
    lake_sink,
    lifecycle,
    logins,
    metrics,
    mirror,
    pipelines,
    python_clients,
    registry,
    rights,
    scale,
    scale_cluster,
    spark_read,
    streams,
    testing,
)
from bench.before import earlier_cluster, earlier_node, judge_as_change, python_path
from bench.cases import Case, topic
from bench.chart import write_chart
from bench.curve import CURVE
from bench.floor import floors_here
from bench.plan import START_S, by_settings, choose, planned_seconds
from bench.publish import Circumstances, circumstances_now, read_results, write_readme, write_results
from bench.report import print_header, print_progress, print_result, print_summary
from bench.runner import OURS, PEER, CaseFailedError, Result, run_case, run_lifecycle, run_once
from tests.support.broker_clusters import KafkaCluster, OttlaCluster
from tests.support.brokers import ApacheKafka, Broker, OttlaNode
from tests.support.java import unavailable_reason

__all__ = ["main"]

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs" / "bench"
SCRATCH = ROOT / "build" / "bench"
# Deleted topics free their space soon, or a full run would fill the disk; both brokers use the same delay.
SETTINGS = {"log.segment.delete.delay.ms": "1000", **groups.SETTINGS}
# The tolerated excess over the planned time; a case that would end later is not started.
TOLERANCE = 1.1
# How long the peer is warmed up with the cases of CPU per byte; at most a tenth of a run with a time limit.
REHEARSAL_S = 180.0

Makers = dict[str, Callable[[Path, dict[str, str]], Broker]]


def main() -> int:
    options = parse_arguments()
    if options.render:
        draw(*read_results(options.output / "results.json"), options.output)
        return 0
    run = Run(options)
    if options.list:
        run.print_plan()
        return 0
    if reason := unavailable_reason():
        print(f"bench: {reason}")
        return 1
    # A run that is interrupted still reports its results so far.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run.go()
    except KeyboardInterrupt:
        print("Interrupted.")
    finally:
        run.finish()
    return 1 if any(result.error for result in run.results) else 0


class Run:
    """One run: its plan, its results, and where they are written."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.results: list[Result] = []
        self._runs: int = options.runs
        self._minutes: float | None = options.minutes
        self._rehearsal_s = min(REHEARSAL_S, REHEARSAL_S if self._minutes is None else self._minutes * 6)
        self._output: Path = options.output
        self._peer_only: bool = options.peer_only
        self._before: Path | None = options.before
        lives = re.search(options.cases, f"{lifecycle.GROUP}: {lifecycle.NAME}") is not None
        self._lifecycle_s = lifecycle.SECONDS * self._runs if lives else 0.0
        # Cases with nodes of their own, most of them compared with something else than Apache Kafka.
        of_nodes = [*testing.SPECIALS, *logins.SPECIALS, *encryption.SPECIALS, *metrics.SPECIALS, *registry.SPECIALS]
        of_clients = [
            *python_clients.SPECIALS,
            *spark_read.SPECIALS,
            *lake.SPECIALS,
            *lake_sink.SPECIALS,
            *pipelines.SPECIALS,
            *mirror.SPECIALS,
            *streams.SPECIALS,
        ]
        of_sizes = [*scale.SPECIALS, *scale_cluster.SPECIALS, *crowd.SPECIALS]
        specials = [*of_nodes, *rights.SPECIALS, *of_sizes, *of_clients]
        self._specials = [
            special
            for special in specials
            if re.search(options.cases, special[0]) and not options.peer_only and options.before is None
        ]
        self._specials_s = sum(seconds for _, seconds, _ in self._specials) * self._runs
        self._cases = choose(
            quick=options.quick,
            pattern=options.cases,
            minutes=self._minutes,
            runs=self._runs,
            spent_s=self._lifecycle_s + self._specials_s + self._rehearsal_s,
            points=options.partitions,
        )
        if self._before is not None:
            self._cases = [replace(case, floors=()) for case in self._cases]
        self._started = time.monotonic()
        self._circumstances = circumstances_now(selection=selection_of(options), runs=self._runs, before=self._before)

    @property
    def expected_s(self) -> float:
        starts_s = START_S * len(by_settings(self._cases))
        return (
            self._lifecycle_s
            + self._specials_s
            + starts_s
            + (self._rehearsal_s if any(case.floors for case in self._cases) else 0.0)
            + sum(planned_seconds(case, runs=self._runs) for case in self._cases)
        )

    def print_plan(self) -> None:
        for case in self._cases:
            print(f"{planned_seconds(case, runs=self._runs):5.0f} s  {case.title}")
        for title, seconds, _ in self._specials:
            print(f"{seconds * self._runs:5.0f} s  {title}")
        count = len(self._cases) + len(self._specials) + bool(self._lifecycle_s)
        print(f"{count} cases, about {self.expected_s / 60:.0f} minutes")

    def go(self) -> None:
        with tempfile.TemporaryDirectory(prefix="ottla-bench-") as scratch, static_copy(Path(scratch)):
            makers, clusters = self._contestants(Path(scratch))
            print_header(self._circumstances.peer_column)
            if self._lifecycle_s:
                self._measure_lifecycle(makers, Path(scratch))
            for number, (title, _, measure) in enumerate(self._specials):
                self._announce(title)
                begun = time.monotonic()
                package = Path(scratch) / "package" / "ottla"
                try:
                    result = measure(package, Path(scratch) / f"special-{number}", self._runs)
                except CaseFailedError as error:
                    group, _, name = title.partition(": ")
                    result = Result(group, name, error=str(error))
                self._keep(result, begun)
            if self._cases:
                with clients.opened() as opened:
                    for number, cases in enumerate(by_settings(self._cases)):
                        chosen = clusters if cases[0].clustered else makers
                        self._measure(cases, chosen, opened, Path(scratch) / f"brokers-{number}")

    def _contestants(self, scratch: Path) -> tuple[Makers, Makers]:
        """The contestants of the cases with one node, and those of the cases with a cluster."""
        if self._before is not None:
            package = copied_package(self._before, scratch / "before")
            nodes: Makers = {PEER: earlier_node(package), OURS: OttlaNode}
            return nodes, {PEER: earlier_cluster(package), OURS: OttlaCluster}
        ours = ApacheKafka if self._peer_only else OttlaNode
        makers: Makers = {PEER: ApacheKafka, OURS: ours}
        return makers, {PEER: KafkaCluster, OURS: KafkaCluster if self._peer_only else OttlaCluster}

    def finish(self) -> None:
        if self.results:
            print_summary(self.results, self._circumstances.peer_column)
            draw(self.results, self._circumstances, self._output)
        print(f"{time.monotonic() - self._started:.0f} s")

    def _measure_lifecycle(self, makers: Makers, directory: Path) -> None:
        self._announce(f"{lifecycle.GROUP}: {lifecycle.NAME}")
        begun = time.monotonic()
        fresh = {side: (lambda path, make=make: make(path, SETTINGS)) for side, make in makers.items()}
        self._keep(run_lifecycle(fresh, directory, runs=self._runs), begun)

    def _measure(self, cases: Sequence[Case], makers: Makers, opened: clients.Clients, directory: Path) -> None:
        """Cases that share a pair of brokers."""
        settings = {**SETTINGS, **cases[0].settings}
        with ExitStack() as stack:
            brokers = {side: stack.enter_context(make(directory / side, settings)) for side, make in makers.items()}
            floor_names = {name for case in cases for name in case.floors}
            floors: dict[str, Broker] = {
                floor.name: stack.enter_context(floor(directory / floor.__name__, settings))
                for floor in floors_here()
                if floor.name in floor_names
            }
            warm_up(brokers, opened)
            rehearse([case for case in cases if case.floors], brokers, opened, seconds=self._rehearsal_s)
            for case in cases:
                self._announce(case.title)
                if self._too_late_for(case):
                    print("    left out: no time is left for it", flush=True)
                    continue
                begun = time.monotonic()
                try:
                    result = run_case(case, brokers, opened, runs=self._runs, floors=floors)
                except CaseFailedError as error:
                    # A case that cannot be measured is reported, and the run continues.
                    result = Result(case.group, case.name, error=str(error))
                self._keep(result, begun)

    def _too_late_for(self, case: Case) -> bool:
        if self._minutes is None:
            return False
        end = time.monotonic() - self._started + planned_seconds(case, runs=self._runs)
        return end > self._minutes * 60 * TOLERANCE

    def _announce(self, title: str) -> None:
        count = len(self._cases) + len(self._specials) + bool(self._lifecycle_s)
        elapsed_s = time.monotonic() - self._started
        print_progress(len(self.results) + 1, count, title, elapsed_s=elapsed_s, expected_s=self.expected_s)

    def _keep(self, result: Result, begun: float) -> None:
        result.seconds = time.monotonic() - begun
        if self._before is not None:
            judge_as_change(result)
        self.results.append(result)
        print_result(result)
        write_results(self.results, self._circumstances, self._output / "results.json")
        write_readme(self.results, self._circumstances, self._output / "README.md")


@contextmanager
def static_copy(directory: Path) -> Iterator[None]:
    """The nodes run a copy of the package, so that its sources may change during the run."""
    with python_path(copied_package(ROOT, directory / "package")):
        yield


def copied_package(checkout: Path, directory: Path) -> Path:
    """The compiled package of a checkout, to be put on the path of a node."""
    shutil.copytree(checkout / "src" / "ottla", directory / "ottla")
    compileall.compile_dir(directory, quiet=2)
    return directory


def draw(results: Sequence[Result], circumstances: Circumstances, directory: Path) -> None:
    write_readme(results, circumstances, directory / "README.md")
    caption = f"Commit {circumstances.commit}, {circumstances.date}."
    paths = [directory / "chart.svg", directory / "chart.png"]
    write_chart(results, paths, peer=circumstances.peer, caption=caption)
    print(f"Written: {directory}/results.json, README.md, chart.svg and chart.png")


def warm_up(brokers: dict[str, Broker], opened: clients.Clients) -> None:
    """Warms up the JVMs of client and peer: the measurement is about steady state, not about warm-up."""
    for _ in range(4):
        for broker in brokers.values():
            with topic(broker, 6) as name:
                settings = {"acks": "1", "batch.size": "16384", "linger.ms": "5"}
                opened.java_produce(broker.bootstrap, name, records=600_000, record_size=100, settings=settings)
                opened.java_consume(broker.bootstrap, name, partitions=6, records=600_000)


def rehearse(cases: Sequence[Case], brokers: Mapping[str, Broker], opened: clients.Clients, *, seconds: float) -> None:
    """Repeats the cases of CPU per byte on the peer until its JIT compiler has finished.

    The peer's CPU per byte falls to a tenth in the first minutes. Without this, the first cases would favour Ottla.
    """
    end = time.monotonic() + seconds
    for case in cycle(cases):
        for broker in brokers.values():
            if isinstance(broker, ApacheKafka):
                run_once(case, broker, opened)
        if time.monotonic() >= end:
            return


def selection_of(options: argparse.Namespace) -> str:
    """The selection of cases in words, for the record."""
    words = "quick" if options.quick else "whole matrix"
    if options.minutes is not None:
        words = f"{'quick, ' if options.quick else ''}what fits into {options.minutes:g} minutes"
    words += f", cases matching {options.cases!r}" if options.cases else ""
    if options.before is not None:
        words += f", not Apache Kafka but the checkout {options.before.name} as the peer"
    return words + (", Apache Kafka against itself" if options.peer_only else "")


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="every axis, not every combination: about 25 minutes")
    parser.add_argument("--minutes", type=float, metavar="N", help="as many cases as fit, every goal before the rest")
    parser.add_argument("--cases", "--only", default="", metavar="PATTERN", help="cases whose name matches")
    parser.add_argument("--runs", type=int, default=3, help="runs of each case on each broker (default: 3)")
    parser.add_argument(
        "--partitions",
        type=lambda text: tuple(int(point) for point in text.split(",")),
        default=CURVE,
        metavar="N,N,...",
        help="points of the curve of three brokers (default: 500 to 5,000)",
    )
    parser.add_argument("--list", action="store_true", help="show what would run and how long that takes, and end")
    parser.add_argument("--render", action="store_true", help="write tables and chart again from results.json, and end")
    parser.add_argument(
        "--output",
        type=Path,
        help="where results go (default: docs/bench, or build/bench for a quick or partial run)",
    )
    parser.add_argument(
        "--peer-only", action="store_true", help="Apache Kafka against itself: how noisy is the machine?"
    )
    parser.add_argument(
        "--before", type=Path, metavar="DIR", help="another checkout instead of Apache Kafka: what a change costs"
    )
    options = parser.parse_args()
    if options.output is None:
        partial = options.quick or options.cases or options.peer_only or options.before
        options.output = SCRATCH if partial else DOCS
    return options


if __name__ == "__main__":
    sys.exit(main())
