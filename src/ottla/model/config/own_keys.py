"""Keys of this software's own, which Apache Kafka does not have.

They stand apart from the tables of Kafka's keys, which are compared with Kafka's key by key. Kafka ignores them, so a
properties file with them still serves both. They are read when the node starts and cannot change while it runs.
"""

from __future__ import annotations

from typing import Final

from ottla.model.config.columns import LOW, MEDIUM, READ_ONLY, STRING
from ottla.model.config.keys import HONOURED, ConfigKey
from ottla.model.config.validators import OneOf

__all__ = ["OWN_KEYS"]

# fmt: off
OWN_KEYS: Final = {
    key.name: key
    for key in (
        ConfigKey("ottla.metrics.listener", STRING, "", None, MEDIUM, READ_ONLY, HONOURED,
                  "Address (host:port) at which metrics and health are told over HTTP; port 0 takes a free one, empty "
                  "tells them nowhere."),
        ConfigKey("ottla.log.format", STRING, "text", OneOf("text", "logfmt", "json"), LOW, READ_ONLY, HONOURED,
                  "How the node writes its own log: a line for people, key=value pairs, or one JSON object per line."),
    )
}
# fmt: on
