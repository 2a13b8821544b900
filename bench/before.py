"""Another checkout of Ottla as the peer: what a change costs, with the cases of the comparison with Kafka.

The nodes of the peer run from a copy of that checkout's package; clients, cases and settings are those of this one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from bench.cases import Goal
from bench.runner import Result
from tests.support.broker_clusters import OttlaCluster
from tests.support.brokers import Broker, OttlaNode

__all__ = ["earlier_cluster", "earlier_node", "judge_as_change", "python_path"]

Maker = Callable[[Path, dict[str, str]], Broker]

# A change may not make anything worse by more than this; runs differ by as much, so a loss is to be measured again.
WORSE_MAX = 0.03


@contextmanager
def python_path(package: Path) -> Iterator[None]:
    """Processes that are started meanwhile run that package."""
    former_path = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = str(package)
    try:
        yield
    finally:
        os.environ.pop("PYTHONPATH")
        if former_path is not None:
            os.environ["PYTHONPATH"] = former_path


class EarlierNode(OttlaNode):
    def __init__(self, package: Path, directory: Path, settings: Mapping[str, str] | None) -> None:
        super().__init__(directory, settings)
        self._package = package

    def start(self) -> Self:
        with python_path(self._package):
            return super().start()


class EarlierCluster(OttlaCluster):
    def __init__(self, package: Path, directory: Path, settings: Mapping[str, str] | None) -> None:
        super().__init__(directory, settings)
        self._package = package

    def start(self) -> Self:
        with python_path(self._package):
            return super().start()

    def start_node(self, node_id: int) -> None:
        with python_path(self._package):
            super().start_node(node_id)


def earlier_node(package: Path) -> Maker:
    return lambda directory, settings: EarlierNode(package, directory, settings)


def earlier_cluster(package: Path) -> Maker:
    return lambda directory, settings: EarlierCluster(package, directory, settings)


def judge_as_change(result: Result) -> None:
    """Gives every figure the goal that the change has not made it worse."""
    for figure in result.figures:
        if figure.metric != "others":
            more_is_better = figure.metric.endswith("/s")
            ratio = 1 - WORSE_MAX if more_is_better else 1 + WORSE_MAX
            figure.goal = Goal(ratio=ratio, at_most=not more_is_better)
