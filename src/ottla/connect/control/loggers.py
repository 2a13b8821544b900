"""Levels of loggers, as `/admin/loggers` shows and sets them. Names of levels are Kafka's, `root` is the root."""

from __future__ import annotations

import logging
import time
from typing import Any

__all__ = ["LEVELS", "Loggers"]

LEVELS = {
    "OFF": logging.CRITICAL + 10,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
    "ALL": logging.NOTSET + 1,
}
_NAMES = {level: name for name, level in LEVELS.items()}
_ROOT = "root"


class Loggers:
    def __init__(self) -> None:
        self._modified: dict[str, int] = {}

    def all(self) -> dict[str, dict[str, Any]]:
        """Those whose level was set, and the root."""
        names = {_ROOT, *self._modified}
        for name, each in logging.Logger.manager.loggerDict.items():
            if isinstance(each, logging.Logger) and each.level != logging.NOTSET:
                names.add(name)
        return {name: self._body(name) for name in sorted(names)}

    def get(self, name: str) -> dict[str, Any] | None:
        if name != _ROOT and name not in logging.Logger.manager.loggerDict:
            return None
        return self._body(name)

    def set(self, name: str, level: str) -> list[str]:
        """Sets a logger and those below it that exist; their names."""
        number = LEVELS[level.upper()]
        names = [_ROOT] if name == _ROOT else [name]
        logging.getLogger(None if name == _ROOT else name).setLevel(number)
        for each in list(logging.Logger.manager.loggerDict):
            if name == _ROOT or each.startswith(name + "."):
                logging.getLogger(each).setLevel(number)
                names.append(each)
        now = int(time.time() * 1000)
        for each in names:
            self._modified[each] = now
        return sorted(names)

    def _body(self, name: str) -> dict[str, Any]:
        level = logging.getLogger(None if name == _ROOT else name).getEffectiveLevel()
        closest = min(_NAMES, key=lambda known: abs(known - level))
        return {"level": _NAMES[closest], "last_modified": self._modified.get(name)}
