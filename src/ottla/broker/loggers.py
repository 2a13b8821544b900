"""Levels of loggers while the node runs, under Kafka's names for them (KIP-412).

A logger is a module's (`ottla.host.connection`) or a package's; `root` is all of them, and `kafka.request.logger` is
the log of requests. Setting a level is never written down: after a restart the node logs as it was started.
"""

from __future__ import annotations

import logging

from ottla.broker.request_log import REQUEST_LOGGER_NAME

__all__ = ["LEVELS", "ROOT", "level_name", "logger_levels", "set_logger_level"]

LEVELS = {
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
}
ROOT = "root"

_NAMES = {number: name for name, number in LEVELS.items()}


def logger_levels() -> dict[str, str]:
    """The effective level of every logger of ours, `root` included."""
    levels = {ROOT: level_name(logging.getLogger().level)}
    for name, logger in sorted(logging.root.manager.loggerDict.items()):
        is_ours = name.partition(".")[0] == "ottla" or name == REQUEST_LOGGER_NAME
        if isinstance(logger, logging.Logger) and is_ours:
            levels[name] = level_name(logger.getEffectiveLevel())
    return levels


def set_logger_level(name: str, level: str | None) -> None:
    """Sets one logger's level; None makes it follow its parent again (the root logger falls back to INFO)."""
    if name == ROOT:
        logging.getLogger().setLevel(LEVELS[level or "INFO"])
    elif name == REQUEST_LOGGER_NAME:
        # It never follows its parent, or everybody who wants to see more of the node would see every request.
        logging.getLogger(name).setLevel(LEVELS[level or "WARN"])
    else:
        logging.getLogger(name).setLevel(logging.NOTSET if level is None else LEVELS[level])


def level_name(level: int) -> str:
    return _NAMES.get(level, logging.getLevelName(level))
