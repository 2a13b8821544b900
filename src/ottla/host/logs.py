"""Logging: one line per event, to standard error or a file, with levels that can change while the node runs.

`ottla.log.format` selects the format of a line:

    text    2026-11-15 10:21:07,123 INFO ottla.broker.lifecycle the node is ready
    logfmt  time=2026-11-15T10:21:07.123+01:00 level=INFO logger=ottla.broker.lifecycle message="the node is ready"
    json    {"time": "2026-11-15T10:21:07.123+01:00", "level": "INFO", "logger": "...", "message": "the node is ready"}

As text, a traceback follows its line indented, so that every line that begins with a date is an event; the other
formats have a field `traceback`. Levels belong to logger names; `ottla.broker.loggers` reads and sets them.
"""

from __future__ import annotations

import logging
import sys
import time

from ottla.broker.loggers import LEVELS, level_name
from ottla.model.ports import Clock

__all__ = ["RateLimit", "set_up_logging"]


def set_up_logging(*, level: str = "INFO", file: str | None = None, line_format: str = "text") -> None:
    """Writes all records of `ottla` to standard error, or appends them to a file."""
    # Fields that no format prints need not be computed for every line.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler: logging.Handler
    handler = logging.StreamHandler(sys.stderr) if file is None else logging.FileHandler(file, encoding="utf-8")
    handler.setFormatter(_FORMATTERS[line_format]())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(LEVELS[level])


class RateLimit:
    """Admits a few lines per second and counts the suppressed ones, for lines that any client can cause."""

    __slots__ = ("_clock", "_lines_left", "_lines_per_second", "_second", "_suppressed")

    def __init__(self, clock: Clock, *, lines_per_second: int) -> None:
        self._clock = clock
        self._lines_per_second = lines_per_second
        self._second = -1
        self._lines_left = 0
        self._suppressed = 0

    def admit(self) -> int | None:
        """None if the line is suppressed; otherwise the number of lines suppressed since the last one."""
        second = int(self._clock.monotonic())
        if second != self._second:
            self._second = second
            self._lines_left = self._lines_per_second
        if self._lines_left == 0:
            self._suppressed += 1
            return None
        self._lines_left -= 1
        suppressed, self._suppressed = self._suppressed, 0
        return suppressed


class _LineFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        message = record.getMessage().replace("\n", "\\n")
        line = f"{moment},{int(record.msecs):03d} {level_name(record.levelno)} {record.name} {message}"
        if record.exc_info:
            line += "\n    " + self.formatException(record.exc_info).replace("\n", "\n    ")
        return line


class _LogfmtFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{key}={_logfmt_value(value)}" for key, value in _fields(self, record).items())


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        # Imported only if this format is used.
        import json

        return json.dumps(_fields(self, record), ensure_ascii=False)


def _fields(formatter: logging.Formatter, record: logging.LogRecord) -> dict[str, str]:
    moment = time.localtime(record.created)
    zone = time.strftime("%z", moment)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", moment)
    fields = {
        "time": f"{stamp}.{int(record.msecs):03d}{zone[:3]}:{zone[3:]}",
        "level": level_name(record.levelno),
        "logger": record.name,
        "message": record.getMessage(),
    }
    if record.exc_info:
        fields["traceback"] = formatter.formatException(record.exc_info)
    return fields


def _logfmt_value(value: str) -> str:
    if value and value.isprintable() and not any(mark in value for mark in ' ="'):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


_FORMATTERS: dict[str, type[logging.Formatter]] = {
    "text": _LineFormatter,
    "logfmt": _LogfmtFormatter,
    "json": _JsonFormatter,
}
