"""State directories of tasks. One worker uses a directory at a time, and holds a lock on it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from pathlib import Path

from ottla.streams.errors import StreamsError

__all__ = ["LockedDirectory", "StateDirectory"]

_LOCK = ".lock"


class LockedDirectory:
    """The directory of a task, while its lock is held."""

    def __init__(self, path: Path) -> None:
        """Raises BlockingIOError if another worker holds the lock, or removes the directory."""
        path.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._file = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _is_same(self._file, path / _LOCK):
                raise BlockingIOError
        except BlockingIOError:
            os.close(self._file)
            raise
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        os.close(self._file)

    def clear(self) -> None:
        """Removes everything but the lock."""
        for entry in self.path.iterdir():
            if entry.name == _LOCK:
                continue
            if entry.is_dir():
                shutil.rmtree(entry)
            else:
                entry.unlink()


class StateDirectory:
    """A directory for every task of an instance, by task id."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def try_lock(self, task_id: str) -> LockedDirectory | None:
        """None if another worker holds the lock, or removes the directory."""
        try:
            return LockedDirectory(self.path / task_id)
        except (BlockingIOError, FileNotFoundError):
            return None
        except OSError as error:
            raise StreamsError(
                f"The state directory {self.path / task_id} cannot be used: {error.strerror}. "
                "Set state.dir to a directory that the application may write to."
            ) from error

    def holder(self, task_id: str) -> str:
        """The process that holds the lock of a task."""
        with contextlib.suppress(OSError):
            return (self.path / task_id / _LOCK).read_text() or "unknown"
        return "unknown"

    def task_ids(self) -> list[str]:
        """The tasks that have a directory here, regardless of which worker used it last."""
        with contextlib.suppress(OSError):
            return sorted(entry.name for entry in self.path.iterdir() if (entry / _LOCK).exists())
        return []

    def remove_unused(self, older_than_s: float, *, keeps: frozenset[str]) -> list[str]:
        """Removes directories of tasks that no worker has used for some time (`state.cleanup.delay.ms`)."""
        removed = []
        for task_id in self.task_ids():
            path = self.path / task_id
            try:
                if task_id in keeps or time.time() - _last_change(path) < older_than_s:
                    continue
                locked = self.try_lock(task_id)
                if locked is None:
                    continue
                try:
                    locked.clear()
                    (path / _LOCK).unlink()
                    path.rmdir()
                finally:
                    locked.release()
            except OSError:
                # Another worker removed the directory, or uses it again.
                continue
            removed.append(task_id)
        return removed


def _is_same(file: int, path: Path) -> bool:
    """False if the file was removed, or created again, since it was opened."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


def _last_change(path: Path) -> float:
    return max((entry.stat().st_mtime for entry in path.iterdir()), default=0.0)
