"""Writes of a checkpoint file do not overlap."""

from __future__ import annotations

from typing import Any

from ottla.model.deferred import Deferred
from ottla.model.ids import TopicPartition
from ottla.storage.checkpoint_writes import CheckpointWrites

ORDERS = TopicPartition("orders", 0)


class Directory:
    def write_checkpoint(self, name: str, offsets: dict[TopicPartition, int]) -> None:
        raise AssertionError("the workers of this test only take notes")


class Workers:
    """Keeps jobs until the test completes them."""

    def __init__(self) -> None:
        self.jobs: list[tuple[tuple[Any, ...], Deferred[None]]] = []

    def submit(self, *job: Any) -> Deferred[None]:
        done: Deferred[None] = Deferred()
        self.jobs.append((job, done))
        return done

    def offsets(self) -> list[int]:
        return [job[-1][ORDERS] for job, _ in self.jobs]

    def finish(self, number: int) -> None:
        self.jobs[number][1].resolve(None)


def test_a_write_waits_for_the_one_under_way() -> None:
    workers, directory = Workers(), Directory()
    writes = CheckpointWrites(workers.submit)
    first = writes.write(directory, "a", {ORDERS: 1})  # type: ignore[arg-type]
    second = writes.write(directory, "a", {ORDERS: 2})  # type: ignore[arg-type]
    assert workers.offsets() == [1]
    workers.finish(0)
    assert first.done
    assert not second.done
    assert workers.offsets() == [1, 2]
    workers.finish(1)
    assert second.done


def test_only_the_newest_of_those_who_wait_is_written_and_all_are_told() -> None:
    workers, directory = Workers(), Directory()
    writes = CheckpointWrites(workers.submit)
    done = [writes.write(directory, "a", {ORDERS: offset}) for offset in (1, 2, 3)]  # type: ignore[arg-type]
    workers.finish(0)
    assert workers.offsets() == [1, 3]
    assert [write.done for write in done] == [True, False, False]
    later = writes.write(directory, "a", {ORDERS: 4})  # type: ignore[arg-type]
    workers.finish(1)
    assert [write.done for write in done] == [True, True, True]
    assert not later.done
    workers.finish(2)
    assert workers.offsets() == [1, 3, 4]
    assert later.done


def test_other_files_do_not_wait() -> None:
    workers = Workers()
    writes = CheckpointWrites(workers.submit)
    first, other = Directory(), Directory()
    for directory, name in ((first, "a"), (first, "b"), (other, "a")):
        writes.write(directory, name, {ORDERS: 1})  # type: ignore[arg-type]
    assert len(workers.jobs) == 3
