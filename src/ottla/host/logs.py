"""Logging: one line per event, to standard error or a file, with levels that can change while the node runs.

    2026-11-15 10:21:07,123 INFO ottla.broker.lifecycle the node is ready

A traceback follows its line indented, so that a line which begins with a date is always an event of its own. Levels
belong to logger names (`ottla.host.connection` and so on; `root` is all of them), as Kafka's broker loggers do.
"""

from __future__ import annotations

import logging
import sys
import time

from ottla.model.ports import Clock

__all__ = ["LEVELS", "RateLimit", "logger_levels", "set_logger_level", "set_up_logging"]

# Kafka's names for the levels, which DescribeConfigs shows and IncrementalAlterConfigs takes.
LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
}
_NAMES = {number: name for name, number in LEVELS.items()}


def set_up_logging(*, level: str = "INFO", file: str | None = None) -> None:
    """Sends everything of `ottla` to standard error, or to the end of a file."""
    # What nobody here prints need not be found out for every line.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    handler: logging.Handler
    handler = logging.StreamHandler(sys.stderr) if file is None else logging.FileHandler(file, encoding="utf-8")
    handler.setFormatter(_LineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(LEVELS[level])


def logger_levels() -> dict[str, str]:
    """The effective level of every logger that exists, `root` included."""
    levels = {"root": _name_of(logging.getLogger().level)}
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger):
            levels[name] = _name_of(logger.getEffectiveLevel())
    return levels


def set_logger_level(name: str, level: str | None) -> None:
    """Sets one logger's level; None makes it follow its parent again."""
    logger = logging.getLogger() if name == "root" else logging.getLogger(name)
    logger.setLevel(logging.NOTSET if level is None else LEVELS[level])


class RateLimit:
    """Lets a few lines per second through and counts the others, for lines that a stranger can cause."""

    __slots__ = ("_clock", "_left", "_lines_per_second", "_second", "_unsaid")

    def __init__(self, clock: Clock, *, lines_per_second: int) -> None:
        self._clock = clock
        self._lines_per_second = lines_per_second
        self._second = -1
        self._left = 0
        self._unsaid = 0

    def admit(self) -> int | None:
        """None: keep silent. A number: say it, and how many were kept silent since the last one."""
        second = int(self._clock.monotonic())
        if second != self._second:
            self._second = second
            self._left = self._lines_per_second
        if self._left == 0:
            self._unsaid += 1
            return None
        self._left -= 1
        unsaid, self._unsaid = self._unsaid, 0
        return unsaid


class _LineFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        message = record.getMessage().replace("\n", "\\n")
        level = _NAMES.get(record.levelno, record.levelname)
        line = f"{moment},{int(record.msecs):03d} {level} {record.name} {message}"
        if record.exc_info:
            line += "\n    " + self.formatException(record.exc_info).replace("\n", "\n    ")
        return line


def _name_of(level: int) -> str:
    return _NAMES.get(level, logging.getLevelName(level))
