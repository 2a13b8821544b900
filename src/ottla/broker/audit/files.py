"""Audit events in files: `authorization-1.jsonl` and `authentication-1.jsonl`, and older files with a number behind.

The number of the node is part of the name, because the nodes of a host may share the directory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.deferred import Deferred

if TYPE_CHECKING:
    from ottla.broker.audit.trail import Line
    from ottla.model.ports import File, Files

__all__ = ["AuditFiles"]


class AuditFiles:
    """`prepare` does the work, on a worker thread."""

    def __init__(self, files: Files, directory: str, *, node_id: int, bytes_max: int, count: int) -> None:
        self._files = files
        self._directory = directory
        self._node_id = node_id
        self._bytes_max = bytes_max
        self._count = count
        self._open: dict[str, File] = {}

    def prepare(self, lines: list[Line]) -> None:
        for stream in dict.fromkeys(line.stream for line in lines):
            text = b"".join(line.text + b"\n" for line in lines if line.stream == stream)
            self._file(stream, len(text)).append(text)

    def write(self, lines: list[Line]) -> Deferred[None]:  # noqa: ARG002
        return Deferred.resolved(None)

    def close(self) -> None:
        for file in self._open.values():
            file.close()
        self._open.clear()

    def _file(self, stream: str, size: int) -> File:
        """The file of the stream with room for that many bytes."""
        path = f"{self._directory}/{stream}-{self._node_id}.jsonl"
        file = self._open.get(stream)
        if file is None:
            self._files.make_directories(self._directory)
            file = self._open[stream] = self._files.open(path)
        if file.size and file.size + size > self._bytes_max:
            file.close()
            del self._open[stream]
            self._rotate(path)
            file = self._open[stream] = self._files.open(path)
        return file

    def _rotate(self, path: str) -> None:
        """`path` becomes `path.1`, `path.1` becomes `path.2`, and the oldest is removed."""
        oldest = f"{path}.{self._count - 1}"
        if self._count == 1:
            self._files.remove(path)
            return
        if self._files.exists(oldest):
            self._files.remove(oldest)
        for number in range(self._count - 2, 0, -1):
            if self._files.exists(f"{path}.{number}"):
                self._files.rename(f"{path}.{number}", f"{path}.{number + 1}")
        self._files.rename(path, f"{path}.1")
