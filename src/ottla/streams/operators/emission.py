"""When windowed aggregates are emitted: with every update, or once when the window closes."""

from __future__ import annotations

from enum import Enum

from ottla.streams.machine.processor import ProcessorContext
from ottla.streams.record import NO_TIMESTAMP

__all__ = ["CloseEmitter", "EmitStrategy"]

_INTERVAL_CONFIG = "__emit.interval.ms.kstreams.windowed.aggregation__"
_INTERVAL_MS = 1000


class EmitStrategy(Enum):
    ON_WINDOW_UPDATE = "on window update"
    ON_WINDOW_CLOSE = "on window close"

    @staticmethod
    def on_window_update() -> EmitStrategy:
        return EmitStrategy.ON_WINDOW_UPDATE

    @staticmethod
    def on_window_close() -> EmitStrategy:
        return EmitStrategy.ON_WINDOW_CLOSE


class CloseEmitter:
    """Looks for closed windows at most once in an interval of wall-clock time, and only if stream time has advanced."""

    def __init__(self, context: ProcessorContext, strategy: EmitStrategy, store: str) -> None:
        self._context = context
        self._store = store
        self._is_on = strategy is EmitStrategy.ON_WINDOW_CLOSE
        self._interval_ms = int(context.config.get(_INTERVAL_CONFIG, _INTERVAL_MS))
        self._next_ms = 0
        # Windows up to this time were emitted, perhaps before a restart.
        remembered = context.remembered(store)
        self.last_close_time = NO_TIMESTAMP if remembered is None else remembered

    def is_due(self, close_time: int) -> bool:
        now_ms = self._context.current_system_time_ms()
        if not self._is_on or now_ms < self._next_ms:
            return False
        self._next_ms = now_ms + self._interval_ms
        return self.last_close_time == NO_TIMESTAMP or self.last_close_time < close_time

    def emitted(self, close_time: int) -> None:
        self.last_close_time = close_time
        self._context.remember(self._store, close_time)
