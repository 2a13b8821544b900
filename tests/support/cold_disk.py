"""A disk whose pages are not in memory until a worker has read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.host.files import OsFile
from ottla.storage import index_file, page_cache

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    from ottla.model.deferred import Deferred
    from ottla.model.ports import File
    from tests.support.files import MemoryFile
    from tests.support.virtual_world import VirtualWorkers

__all__ = ["PAGE_BYTES", "ColdDisk"]

PAGE_BYTES = 256


class ColdDisk:
    """Tracks the pages of the node's files in memory: the pages that a worker has read since `empty`."""

    def __init__(
        self, workers: VirtualWorkers, monkeypatch: pytest.MonkeyPatch, kind: type[OsFile] | type[MemoryFile] = OsFile
    ) -> None:
        self.loop_reads: list[str] = []
        self.is_watched = False
        self.keeps_nothing = False
        self.error: OSError | None = None
        self._cached: set[tuple[str, int]] = set()
        self._is_on_worker = False
        self._read: Any = kind.read
        submit = workers.submit

        def submit_watched(function: Callable[..., Any], *arguments: Any) -> Deferred[Any]:
            """Only the function itself runs on the worker; callbacks with its result run on the loop."""

            def run() -> Any:
                self._is_on_worker = True
                try:
                    return function(*arguments)
                finally:
                    self._is_on_worker = False

            return submit(run)

        monkeypatch.setattr(workers, "submit", submit_watched)
        monkeypatch.setattr(kind, "read", lambda file, position, length: self.read(file, position, length))
        monkeypatch.setattr(kind, "read_nowait", lambda file, position, length: self.nowait(file, position, length))
        # Small blocks, so that small files need several rounds, too.
        monkeypatch.setattr(page_cache, "BLOCK_BYTES", PAGE_BYTES)
        monkeypatch.setattr(index_file, "_PAGE_BYTES", 64)

    def empty(self) -> None:
        self._cached.clear()
        self.loop_reads.clear()
        self.is_watched = True

    def read(self, file: File, position: int, length: int) -> bytes:
        if self.is_watched and not self._is_on_worker:
            self.loop_reads.append(file.path)
        if self.error is not None:
            raise self.error
        if not self.keeps_nothing:
            self._cached.update(self._pages(file, position, length))
        return self._read(file, position, length)

    def nowait(self, file: File, position: int, length: int) -> bytes | None:
        if self.is_watched and not self._pages(file, position, length) <= self._cached:
            return None
        return self._read(file, position, length)

    def _pages(self, file: File, position: int, length: int) -> set[tuple[str, int]]:
        end = min(position + length, file.size)
        return {(file.path, page) for page in range(position // PAGE_BYTES, -(-end // PAGE_BYTES))}
