"""Settings whose values are secrets: plans, commands, logs and pages do not tell them."""

from __future__ import annotations

import re

from ottla.client.admin.configs import ConfigEntry, ConfigResource, ResourceType
from ottla.model.config.effective import is_secret_of_broker

__all__ = ["HIDDEN", "TOLD", "is_secret_of_connector", "is_secret_setting"]

# In answers, and in commands.
HIDDEN = "[hidden]"
TOLD = "..."
# What Kafka keeps as a password, and what plug-ins call one. Many keys of brokers are about passwords and are none.
_SETTING = re.compile(
    r"(password|passwd|passphrase|secret|secret\.key|token|api\.?key|access\.?key|private\.key|credentials?|"
    r"sasl\.jaas\.config|ssl\.keystore\.key|ssl\.keystore\.certificate\.chain|ssl\.truststore\.certificates|"
    r"auth\.user\.info)$",
    re.IGNORECASE,
)
# Connectors are of anybody: one key too many is better than one too few.
_CONNECTOR_KEY = re.compile(
    r"passw|passphrase|secret|token|credential|api[._-]?key|access[._-]?key|account[._-]?key|private|jaas|user\.info|"
    r"authorization|keystore\.key$|certificate\.chain$|truststore\.certificates$",
    re.IGNORECASE,
)
# An address with a password in it.
_CONNECTOR_VALUE = re.compile(r"://[^/@\s]+:[^/@\s]+@|passw(or)?d=|-----BEGIN [A-Z ]*PRIVATE KEY", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{[^}]*\}")


def is_secret_setting(resource: ConfigResource, name: str, entry: ConfigEntry | None) -> bool:
    """`entry` is what the cluster tells of the setting; it tells nothing of one that was never set."""
    if _SETTING.search(name) is not None:
        return True
    if entry is not None:
        return entry.is_sensitive
    # A key that nobody knows may be a secret of a plug-in.
    return resource.type is ResourceType.BROKER and is_secret_of_broker(name)


def is_secret_of_connector(key: str, value: object, passwords: frozenset[str] = frozenset()) -> bool:
    """`passwords` are the keys that the connector itself defines as passwords."""
    text = str(value)
    # A reference to a secret is no secret.
    if _REFERENCE.fullmatch(text):
        return False
    return key in passwords or _CONNECTOR_KEY.search(key) is not None or _CONNECTOR_VALUE.search(text) is not None
