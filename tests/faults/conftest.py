"""The duration of each test with faults: FAULTS_SECONDS; the seed of the random choices: FAULTS_SEED."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from ottla.testing import Cluster
from tests.support.hostile import PERCENTILES, RESULTS
from tests.support.kept_logs import copy_logs

FAULTS_SECONDS = 60.0
# The promised duration for transactions.
EXACTLY_ONCE_SECONDS = 120.0
SEED = 20_261_115


@pytest.fixture(scope="session")
def faults_seconds() -> float:
    return float(os.environ.get("FAULTS_SECONDS", FAULTS_SECONDS))


@pytest.fixture(scope="session")
def exactly_once_seconds() -> float:
    return float(os.environ.get("FAULTS_SECONDS", EXACTLY_ONCE_SECONDS))


@pytest.fixture(scope="session")
def faults_seed() -> int:
    return int(os.environ.get("FAULTS_SEED", SEED))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the tables of the attacks: the cost of each attack for an honest client and the node."""
    if PERCENTILES:
        terminalreporter.section("p99 of honest clients")
        heads = ("usual", "beside", "attacked", "ratio")
        terminalreporter.write_line("".join(f"{head:>10}" for head in heads) + "  attack")
        for percentiles in PERCENTILES:
            ratio = percentiles.attacked_ms / (percentiles.beside_ms or percentiles.usual_ms)
            columns = (percentiles.usual_ms, percentiles.beside_ms, percentiles.attacked_ms, ratio)
            figures = "".join(f"{'-' if column is None else f'{column:.1f}':>10}" for column in columns)
            terminalreporter.write_line(f"{figures}  {percentiles.attack} {percentiles.note}".rstrip())
        terminalreporter.write_line(
            "in milliseconds; beside: the attackers attack another node; ratio: attacked / beside"
        )
    if not RESULTS:
        return
    terminalreporter.section("attacks")
    terminalreporter.write_line(f"{'longest gap':>12} {'long turn':>9} {'answers':>8} {'peak memory':>12}  attack")
    for result in RESULTS:
        gap_ms, turn_ms = result.longest_seconds * 1000, result.turn_seconds * 1000
        figures = f"{gap_ms:9.0f} ms {turn_ms:6.0f} ms {result.answers:8} {result.peak_bytes / 1e6:9.0f} MB"
        terminalreporter.write_line(f"{figures}  {result.attack}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Function) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keeps the logs of a failed test's nodes before they are removed."""
    report = yield
    cluster, directory = item.funcargs.get("nodes"), item.funcargs.get("tmp_path")
    if report.failed and isinstance(cluster, Cluster) and isinstance(directory, Path):
        copy_logs(cluster, directory / "logs")
        report.sections.append(("the nodes' logs", f"are in {directory / 'logs'}"))
    return report
