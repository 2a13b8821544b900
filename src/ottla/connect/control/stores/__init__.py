"""The stores of configurations, offsets and states: three compacted topics, or memory and a file."""

from __future__ import annotations

from typing import NamedTuple

from ottla.connect.control.stores.config import ConfigStore
from ottla.connect.control.stores.status import StatusStore
from ottla.connect.work.source_offsets import OffsetStore

__all__ = ["Stores"]


class Stores(NamedTuple):
    config: ConfigStore
    status: StatusStore
    source_offsets: OffsetStore
