"""Spark workers: the garbage collector skips the objects of the first task after later tasks."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from ottla.spark.daemon import frozen_after_first


@pytest.fixture(autouse=True)
def _thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_the_first_task_is_frozen_and_no_later_one() -> None:
    kept: list[list[object]] = []

    def serve(authenticated: bool) -> int:
        kept.append([[]])
        return 0

    worker = frozen_after_first(serve)
    before = gc.get_freeze_count()
    assert worker(True) == 0
    after_first = gc.get_freeze_count()
    assert after_first > before
    assert worker(True) == 0
    assert gc.get_freeze_count() <= after_first
    # Objects of the second task are still collected.
    assert any(tracked is kept[1] for tracked in gc.get_objects())


def test_a_worker_whose_connection_was_closed_ends_quietly() -> None:
    def serve() -> int:
        raise BrokenPipeError

    assert frozen_after_first(serve)() == 1


def test_the_exit_code_of_a_task_is_kept() -> None:
    assert frozen_after_first(lambda: 3)() == 3
