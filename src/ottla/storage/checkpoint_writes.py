"""Writes of checkpoint files, one at a time for each file.

Several workers could replace the same file with the same temporary file. Two writes at once would rename it away from
each other, which looks like a broken disk, or leave the older offsets: a node that stops writes its last checkpoint
while a periodic write may be under way.
"""

from __future__ import annotations

from collections.abc import Callable

from ottla.model.deferred import Deferred
from ottla.model.ids import TopicPartition
from ottla.storage.directories import LogDirectory

__all__ = ["CheckpointWrites", "Offsets"]

Offsets = dict[TopicPartition, int]

_File = tuple[LogDirectory, str]


class CheckpointWrites:
    """`submit` runs a function on a worker, and takes a failed directory out of service."""

    __slots__ = ("_running", "_submit", "_waiting")

    def __init__(self, submit: Callable[..., Deferred[None]]) -> None:
        self._submit = submit
        self._running: set[_File] = set()
        # The newest offsets, which are written after the write under way, for all waiting callers.
        self._waiting: dict[_File, tuple[Offsets, Deferred[None]]] = {}

    def write(self, directory: LogDirectory, name: str, offsets: Offsets) -> Deferred[None]:
        """Resolves when these offsets, or newer ones, are in the file."""
        file = (directory, name)
        _, done = self._waiting.get(file) or (offsets, Deferred())
        if file in self._running:
            self._waiting[file] = (offsets, done)
        else:
            self._begin(file, offsets, done)
        return done

    def _begin(self, file: _File, offsets: Offsets, done: Deferred[None]) -> None:
        directory, name = file
        self._running.add(file)

        def on_written(_: Deferred[None]) -> None:
            self._running.discard(file)
            next_one = self._waiting.pop(file, None)
            if next_one is not None:
                self._begin(file, *next_one)
            done.resolve(None)

        self._submit(directory, directory.write_checkpoint, name, offsets).when_done(on_written)
