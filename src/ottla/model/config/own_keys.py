"""Keys of Ottla that Apache Kafka does not have.

They are separate from the tables of Kafka's keys, which tests compare with Kafka's. Kafka ignores them, so one
properties file can serve both. They are read when the node starts and cannot change while it runs.
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
                  "Address (host:port) of the HTTP endpoint for metrics and health; port 0 is a free port, empty means "
                  "no endpoint."),
        ConfigKey("ottla.log.format", STRING, "text", OneOf("text", "logfmt", "json"), LOW, READ_ONLY, HONOURED,
                  "Format of the node's own log: text, key=value pairs, or one JSON object per line."),
    )
}
# fmt: on
