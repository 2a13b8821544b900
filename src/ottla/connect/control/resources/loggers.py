"""`/admin/loggers`: levels of loggers, by Kafka's names of levels. `root` is the root logger."""

from __future__ import annotations

import logging
import time
from typing import Any

from ottla.connect.control.request_errors import not_found
from ottla.connect.control.stores.config import ConfigStore

__all__ = ["Loggers"]

_LEVELS = {
    "OFF": logging.CRITICAL + 10,
    "FATAL": logging.CRITICAL,
    "ERROR": logging.ERROR,
    "WARN": logging.WARNING,
    "INFO": logging.INFO,
    "DEBUG": logging.DEBUG,
    "TRACE": 5,
    "ALL": logging.NOTSET + 1,
}
_NAMES = {level: name for name, level in _LEVELS.items()}
_ROOT = "root"


class Loggers:
    def __init__(self, store: ConfigStore) -> None:
        self._store = store
        # When the level of a logger was set, in milliseconds.
        self._modified: dict[str, int] = {}

    def all(self) -> dict[str, dict[str, Any]]:
        """The root logger and all loggers whose level was set."""
        names = {_ROOT, *self._modified}
        for name, existing in logging.Logger.manager.loggerDict.items():
            if isinstance(existing, logging.Logger) and existing.level != logging.NOTSET:
                names.add(name)
        return {name: self._body(name) for name in sorted(names)}

    def get(self, name: str) -> dict[str, Any]:
        if name != _ROOT and name not in logging.Logger.manager.loggerDict:
            raise not_found(f"There is no logger {name}.")
        return self._body(name)

    def set(self, name: str, level: str) -> list[str]:
        """Sets the level of a logger and of the existing loggers below it, on this worker; returns their names."""
        number = _LEVELS[_known_level(level)]
        names = [name]
        logging.getLogger(None if name == _ROOT else name).setLevel(number)
        for existing in list(logging.Logger.manager.loggerDict):
            if name == _ROOT or existing.startswith(name + "."):
                logging.getLogger(existing).setLevel(number)
                names.append(existing)
        now = int(time.time() * 1000)
        self._modified.update(dict.fromkeys(names, now))
        return sorted(names)

    async def set_in_cluster(self, name: str, level: str) -> None:
        """Asks every worker to set the level, through the config topic (KIP-976)."""
        await self._store.put_logger(name, _known_level(level))

    def _body(self, name: str) -> dict[str, Any]:
        level = logging.getLogger(None if name == _ROOT else name).getEffectiveLevel()
        closest = min(_NAMES, key=lambda known: abs(known - level))
        return {"level": _NAMES[closest], "last_modified": self._modified.get(name)}


def _known_level(level: str) -> str:
    if level.upper() not in _LEVELS:
        raise not_found(f"There is no level {level}.")
    return level.upper()
