"""Taking segments out of a log: they vanish for readers at once, and from the disk a while later.

A fetch that was answered a moment ago may still be sending from the file, and so may a worker that syncs or cleans it.
So the files are renamed to `.deleted` and removed on a worker after `file.delete.delay.ms`; what a crash leaves behind
is removed when the log is opened next.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.model.ports import Files, World
from ottla.storage.producers import ProducerLedger
from ottla.storage.segment import Segment

__all__ = ["mark_deleted", "remove_later"]


def mark_deleted(segments: Sequence[Segment], producers: ProducerLedger | None) -> list[str]:
    """Renames the files of segments (and of their producer snapshots, given a ledger); returns what to remove."""
    paths: list[str] = []
    for segment in segments:
        segment.discard()
        segment.rename_deleted()
        paths.extend(segment.paths())
        snapshot = producers.mark_deleted(segment.base_offset) if producers is not None else None
        if snapshot is not None:
            paths.append(snapshot)
    return paths


def remove_later(world: World, paths: Sequence[str], *, delay_ms: int) -> None:
    if paths:
        world.scheduler.call_later(delay_ms / 1000, world.workers.submit, _remove, world.files, tuple(paths))


def _remove(files: Files, paths: Sequence[str]) -> None:
    for path in paths:
        # The whole directory may have been deleted meanwhile.
        if files.exists(path):
            files.remove(path)
