"""How much of a log is durable: flushes, the recovery point, and when it moves.

Everything below the recovery point is on disk, and recovery after a crash begins there. The recovery point moves after
an fsync has succeeded, never before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ottla.storage.errors import is_disk_full, is_shortage, is_temporary
from ottla.storage.flusher import Flusher, sync_job
from ottla.storage.log_files import is_any_short

if TYPE_CHECKING:
    from ottla.model.deferred import Deferred
    from ottla.model.ports import World
    from ottla.storage.log_files import LogFiles
    from ottla.storage.open_files import OpenFiles

__all__ = ["Durability"]


class Durability:
    """Flushes the files of one log."""

    __slots__ = (
        "_files",
        "_flush_started",
        "_flush_target",
        "_flusher",
        "_flushing_paths",
        "_is_short",
        "_is_syncing",
        "_pool",
        "_requested_target",
        "_round_files",
        "_world",
        "last_flush_ms",
        "recovery_point",
    )

    def __init__(self, world: World, pool: OpenFiles, files: LogFiles, *, recovery_point: int) -> None:
        self._world = world
        self._pool = pool
        self._files = self._round_files = files
        self.recovery_point = recovery_point
        self.last_flush_ms = world.clock.now_ms()
        # The end of the log at the last request, and at the last request before the round under way.
        self._requested_target = self._flush_target = recovery_point
        self._flush_started = 0.0
        self._flushing_paths: Sequence[str] = ()
        self._is_short = False
        self._is_syncing = False
        self._flusher = Flusher(world.workers)

    def flush(self, end_offset: int) -> Deferred[None]:
        """Resolves when everything that was appended before the call, up to this end of the log, is durable."""
        self._requested_target = end_offset
        return self._flusher.flush(self)

    def count_closed(self, size: int, outcome: Deferred[None]) -> None:
        """The flush of a closed segment has ended."""
        if outcome.error is None:
            self._pool.count_closed(size)

    def on_truncated(self, end_offset: int) -> None:
        """Notes a truncation: a flush under way must not move the recovery point past the new end."""
        self.recovery_point = min(self.recovery_point, end_offset)
        self._flush_target = min(self._flush_target, end_offset)
        self._requested_target = min(self._requested_target, end_offset)

    def adopt(self, files: LogFiles, *, recovery_point: int) -> None:
        """Continues with other files. A flush under way has synced only the former files."""
        self._files = files
        self.recovery_point = self._flush_target = recovery_point

    def begin_round(self) -> Callable[[], None]:
        """The job of a round of the flusher."""
        self._round_files = self._files
        # A log that was deleted or is recovered does not reopen its files, which may now belong to another log.
        self._files.failures.check()
        self._flush_target = self._requested_target
        self._flush_started = self._world.clock.monotonic()
        self._flushing_paths = ()
        self._is_syncing = False
        open_files, paths = self._files.collect_unsynced(self.recovery_point)
        self._flushing_paths = paths
        self._is_syncing = True
        sync = sync_job(self._world.files, open_files, list(dict.fromkeys(paths)))
        written = self._files.written_files(self.recovery_point)

        def sync_and_check() -> None:
            sync()
            self._is_short = is_any_short(written)

        self._is_short = False
        return sync_and_check

    def must_repeat(self, error: BaseException | None) -> bool:
        """True if the log has moved meanwhile: its records are not durable, and an error concerns the former disk."""
        former = self._round_files
        if former is self._files:
            return False
        if isinstance(error, OSError) and not is_temporary(error):
            former.failures.fail(error, "flush")
        return True

    def end_round(self, error: BaseException | None) -> BaseException | None:
        """Moves the recovery point after a round without an error. Returns the error for the callers of `flush`."""
        files = self._files
        if isinstance(error, OSError):
            if is_shortage(error):
                # The shortage came from opening a file. Nothing counts as synced, and the next flush tries again.
                files.sync_with_next_flush(*self._flushing_paths)
                return files.refusal(error, "flush", end_offset=self._flush_target)
            if is_disk_full(error) and not self._is_syncing:
                # The disk has no room for files that have to be synced with the log. The next flush tries again.
                return files.failures.no_room("flush", directory=files.directory, reason=error.strerror)
            # After a failed fsync the content of the disk is unknown: even a full disk takes the directory out here.
            return files.failures.fail(error, "flush")
        if error is None:
            damage = files.find_damage(self.recovery_point) if self._is_short else None
            if damage is not None:
                return damage
            self.recovery_point = max(self.recovery_point, self._flush_target)
            self.last_flush_ms = self._world.clock.now_ms()
            self._pool.count_flush(self._world.clock.monotonic() - self._flush_started)
        return error
