"""Logger levels of a running node, with Kafka's names for levels (KIP-412).

A logger belongs to a module (`ottla.host.connection`) or a package. `root` is the parent of all loggers, and
`kafka.request.logger` is the request log. Levels are not persisted: a restart resets them.
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
    """The effective level of every logger of Ottla, with `root`."""
    levels = {ROOT: level_name(logging.getLogger().level)}
    for name, logger in sorted(logging.root.manager.loggerDict.items()):
        is_own = name.partition(".")[0] == "ottla" or name == REQUEST_LOGGER_NAME
        if isinstance(logger, logging.Logger) and is_own:
            levels[name] = level_name(logger.getEffectiveLevel())
    return levels


def set_logger_level(name: str, level: str | None) -> None:
    """Sets the level of a logger. None resets it to the level of its parent, and the root logger to INFO."""
    if name == ROOT:
        logging.getLogger().setLevel(LEVELS[level or "INFO"])
    elif name == REQUEST_LOGGER_NAME:
        # The request log never takes the level of its parent. Otherwise DEBUG on `root` would log every request.
        logging.getLogger(name).setLevel(LEVELS[level or "WARN"])
    else:
        logging.getLogger(name).setLevel(logging.NOTSET if level is None else LEVELS[level])


def level_name(level: int) -> str:
    return _NAMES.get(level, logging.getLevelName(level))
