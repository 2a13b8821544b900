"""Short names for the columns of the key tables."""

from __future__ import annotations

from typing import Final

from ottla.model.config.keys import UpdateMode
from ottla.model.config.values import ConfigType, Importance

__all__ = [
    "BOOLEAN",
    "CLASS",
    "CLUSTER_WIDE",
    "DOUBLE",
    "HIGH",
    "INT",
    "INT_MAX",
    "LIST",
    "LONG",
    "LONG_MAX",
    "LOW",
    "MEDIUM",
    "PASSWORD",
    "PER_BROKER",
    "READ_ONLY",
    "SHORT",
    "STRING",
]

BOOLEAN: Final = ConfigType.BOOLEAN
STRING: Final = ConfigType.STRING
INT: Final = ConfigType.INT
SHORT: Final = ConfigType.SHORT
LONG: Final = ConfigType.LONG
DOUBLE: Final = ConfigType.DOUBLE
LIST: Final = ConfigType.LIST
CLASS: Final = ConfigType.CLASS
PASSWORD: Final = ConfigType.PASSWORD

HIGH: Final = Importance.HIGH
MEDIUM: Final = Importance.MEDIUM
LOW: Final = Importance.LOW

READ_ONLY: Final = UpdateMode.READ_ONLY
PER_BROKER: Final = UpdateMode.PER_BROKER
CLUSTER_WIDE: Final = UpdateMode.CLUSTER_WIDE

INT_MAX: Final = (1 << 31) - 1
LONG_MAX: Final = (1 << 63) - 1
