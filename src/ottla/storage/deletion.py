"""Deletion of segments: readers lose them at once, the disk a while later.

A response may still be sent from the file, and a worker may still sync or clean it. So the files are renamed to
`.deleted`, and a worker removes them after `file.delete.delay.ms`. Files that a crash leaves behind are removed when
the log is opened next.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.model.ports import Files, World
from ottla.storage.producers import ProducerLedger
from ottla.storage.segment import Segment

__all__ = ["mark_deleted", "remove_later"]


def mark_deleted(segments: Sequence[Segment], producers: ProducerLedger | None) -> list[str]:
    """Renames the files of segments, and of their producer snapshots if a ledger is given. Returns paths to remove."""
    paths: list[str] = []
    for segment in segments:
        # The snapshot first: an error leaves the segment in service under its own name.
        snapshot = producers.mark_deleted(segment.base_offset) if producers is not None else None
        if snapshot is not None:
            paths.append(snapshot)
        segment.discard()
        segment.rename_deleted()
        paths.extend(segment.paths())
    return paths


def remove_later(world: World, paths: Sequence[str], *, delay_ms: int) -> None:
    if paths:
        world.scheduler.call_later(delay_ms / 1000, world.workers.submit, _remove, world.files, tuple(paths))


def _remove(files: Files, paths: Sequence[str]) -> None:
    for path in paths:
        # The whole directory may have been deleted meanwhile.
        if files.exists(path):
            files.remove(path)
