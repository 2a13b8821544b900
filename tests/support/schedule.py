"""The distribution of tests over the workers of `make test`, and their order.

The tests of a file run in the same worker, and so do all tests of the Spark session: a session has many threads and
processes, and there is memory for only one. Long tests begin first, so that no worker is busy alone at the end.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

from xdist.scheduler import LoadFileScheduling

if TYPE_CHECKING:
    import pytest

__all__ = ["Schedule", "longest_first"]

ROOT = Path(__file__).resolve().parents[2]
SPARK = "spark"
# Directories of tests, ordered by the duration of a file.
LONGEST_FIRST = [
    "kafka", "crash", "java", "streams", "docs", "mirror", "sim", "connect", "lake", "integration", "console",
]  # fmt: skip


class Schedule(LoadFileScheduling):  # type: ignore[misc]
    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid.partition("::")[0])


def longest_first(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: rank_of(item.nodeid.partition("::")[0]))


@functools.cache
def group_of(file: str) -> str:
    return SPARK if "mark.spark" in (ROOT / file).read_text() else file


@functools.cache
def rank_of(file: str) -> int:
    if group_of(file) == SPARK:
        return -1
    directory = file.split("/")[1]
    return LONGEST_FIRST.index(directory) if directory in LONGEST_FIRST else len(LONGEST_FIRST)
