"""The cost of metrics: counting in every request, and a scrape of many partitions.

Counting cannot be switched off, so it is compared with a copy of the package from whose sources all statements that
only count are removed: the copy takes the place of Apache Kafka. A scrape is compared with a budget.
"""

from __future__ import annotations

import ast
import compileall
import shutil
import time
import urllib.request
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

import ottla.testing
from bench import micro
from bench.cases import Goal, Metrics
from bench.measure import cpu_ns
from bench.runner import OURS, PEER, Result, alternating, as_result
from bench.witness import Witness

__all__ = ["COUNTING", "SCRAPING", "SPECIALS", "Special", "measure_counting", "measure_scraping", "without_counting"]

GROUP = "metrics"
COUNTING = f"{GROUP}: CPU of a request, beside a node that counts nothing"
SCRAPING = f"{GROUP}: a scrape of 5,000 partitions, beside what it may cost"

CASES = ("produce 1x100B, 5 in flight", "produce 16 KiB, 5 in flight", "fetch one 16 KiB batch", "fetch 112 KiB")
TOGETHER = "one of each, µs"
COUNTING_GOAL = Goal(ratio=1.02)
# Many short rounds per run; the best round is the one with the least interference.
ROUNDS = 20
ROUND_SHARE = 4

PARTITIONS = 5_000
SCRAPES = 3
BUDGET = {"CPU s": 1.0, "longest wait of others ms": 50.0}

# The statements that only count, by file; the rest of these files is unchanged.
FILES = (
    "broker/dispatch.py",
    "broker/route.py",
    "replica/partition.py",
    "replica/fetch_serving.py",
    "replica/producing.py",
)
COUNTERS = frozenset(
    (
        "bytes_in",
        "bytes_out",
        "failed_produces",
        "failed_fetches",
        "fetches",
        "handled_seconds",
        "handled_times",
        "late_handled_times",
        "late_seconds",
        "late_times",
        "messages_in",
        "parked",
        "produces",
        "replica_bytes_in",
        "replica_bytes_out",
        "request_bytes",
        "request_sizes",
        "requests",
        "response_bytes",
        "seen",
        "waited_seconds",
        "waited_times",
    )
)

# Name, seconds for planning, and the function that measures it: directory, runs -> figures.
Special = tuple[str, float, Callable[[Path, Path, int], Result]]


class _Uncounted(ast.NodeTransformer):
    """Removes additions to counters, and the clock reads for them."""

    def __init__(self) -> None:
        self.removed = 0

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        target: ast.expr = node.target
        if isinstance(target, ast.Subscript):
            target = target.value
        if isinstance(target, ast.Attribute) and target.attr in COUNTERS:
            self.removed += 1
            return ast.copy_location(ast.Pass(), node)
        return node

    def visit_If(self, node: ast.If) -> ast.AST:
        if any(isinstance(inner, ast.Attribute) and inner.attr == "timed_next" for inner in ast.walk(node.test)):
            self.removed += 1
            return ast.copy_location(ast.Pass(), node)
        self.generic_visit(node)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "_monotonic":
            self.removed += 1
            return ast.copy_location(ast.Constant(0.0), node)
        return node


def without_counting(source: str) -> tuple[str, int]:
    """The source of the module without counting, and the number of removed statements."""
    transformer = _Uncounted()
    tree = ast.fix_missing_locations(transformer.visit(ast.parse(source)))
    return ast.unparse(tree), transformer.removed


def copies(package: Path, directory: Path) -> tuple[Path, Path]:
    """The package and its copy without counting; `micro` uses each as a checkout."""
    roots = directory / "counting", directory / "twin"
    for root in roots:
        shutil.copytree(package, root / "src" / "ottla", ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        file = roots[1] / "src" / "ottla" / name
        text, removed = without_counting(file.read_text())
        assert removed, f"{name} counts nothing any more: look again where requests are counted"
        file.write_text(text)
    for root in roots:
        compileall.compile_dir(root, quiet=2)
    return roots


def measure_counting(package: Path, directory: Path, runs: int) -> Result:
    # With several requests in flight the node is never idle, so that the figures contain no wake-up cost.
    cases = [
        replace(case, in_flight=5, requests=case.requests // ROUND_SHARE) for case in micro.CASES if case.name in CASES
    ]
    assert len(cases) == len(CASES)
    figures: dict[str, Metrics] = {PEER: {}, OURS: {}}
    with ExitStack() as stack:
        ours, twin = copies(package, directory)
        nodes = {name: stack.enter_context(micro.node(root)) for name, root in ((PEER, twin), (OURS, ours))}
        for _, port in nodes.values():
            micro.prepare(port)
        for case in cases:
            rounds = [
                {name: micro.measure(case, *nodes[name]) for name in alternating(list(nodes), number)}
                for number in range(runs * ROUNDS)
            ]
            for name in nodes:
                figures[name][f"{case.name}, µs"] = min(round_figures[name] for round_figures in rounds)
    # The error of a single kind of request is as large as the effect; the sum of all kinds is exact enough.
    measured = {name: [{**metrics, TOGETHER: sum(metrics.values())}] for name, metrics in figures.items()}
    return _result(COUNTING, {TOGETHER: COUNTING_GOAL}, measured)


def measure_scraping(package: Path, directory: Path, runs: int) -> Result:  # noqa: ARG001
    """Scrapes a node with many partitions while another connection sends small requests."""
    measured: dict[str, list[Metrics]] = {PEER: [], OURS: []}
    with ottla.testing.cluster(settings={"ottla.metrics.listener": "127.0.0.1:0"}) as cluster:
        node = cluster.node(1)
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("many", PARTITIONS, 1)], request_timeout=120)["many"].result(120)
        while sum(1 for _ in (node.directory / "data").glob("many-*/*.log")) < PARTITIONS:
            time.sleep(0.05)
        del admin
        # The first scrape imports the modules of metrics.
        scrape(node)
        for _ in range(runs):
            witness = Witness(node.address)
            before = cpu_ns(node.pid)
            with witness.watching():
                for _ in range(SCRAPES):
                    assert f'kafka_log_log_size{{topic="many",partition="{PARTITIONS - 1}"}}' in scrape(node)
            seconds = (cpu_ns(node.pid) - before) / 1e9 / SCRAPES
            measured[OURS].append({"CPU s": seconds, "longest wait of others ms": witness.longest_s * 1000})
            measured[PEER].append(dict(BUDGET))
    return _result(SCRAPING, dict.fromkeys(BUDGET, Goal(ratio=1.0)), measured)


def scrape(node: ottla.testing.Node) -> str:
    assert node.metrics_url is not None
    with urllib.request.urlopen(node.metrics_url, timeout=60) as answer:
        return str(answer.read().decode())


def _result(title: str, goals: dict[str, Goal], measured: dict[str, list[Metrics]]) -> Result:
    group, _, name = title.partition(": ")
    return as_result(group, name, goals, measured)


SPECIALS: Iterable[Special] = (
    (COUNTING, 25.0, measure_counting),
    (SCRAPING, 15.0, measure_scraping),
)
