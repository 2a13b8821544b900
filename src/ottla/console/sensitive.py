"""Settings whose values are secrets: plans, commands, logs and pages do not show them."""

from __future__ import annotations

import re

from ottla.client.admin.configs import ConfigEntry, ConfigResource, ResourceType
from ottla.model.config.effective import is_secret_of_broker

__all__ = ["ELIDED", "HIDDEN", "is_secret_of_connector", "is_secret_setting"]

# Placeholders for secrets: in answers, and in commands.
HIDDEN = "[hidden]"
ELIDED = "..."
# Settings that Kafka keeps as passwords, and names of passwords in plug-ins. Many broker settings are about passwords
# without being secret.
_SETTING = re.compile(
    r"(password|passwd|passphrase|secret|secret\.key|token|api\.?key|access\.?key|private\.key|credentials?|"
    r"sasl\.jaas\.config|ssl\.keystore\.key|ssl\.keystore\.certificate\.chain|ssl\.truststore\.certificates|"
    r"auth\.user\.info)$",
    re.IGNORECASE,
)
# Connectors come from many authors: hiding a harmless key is better than showing a secret.
_CONNECTOR_KEY = re.compile(
    r"passw|passphrase|secret|token|credential|api[._-]?key|access[._-]?key|account[._-]?key|private|jaas|user\.info|"
    r"authorization|keystore\.key$|certificate\.chain$|truststore\.certificates$",
    re.IGNORECASE,
)
# An address with a password in it.
_CONNECTOR_VALUE = re.compile(r"://[^/@\s]+:[^/@\s]+@|passw(or)?d=|-----BEGIN [A-Z ]*PRIVATE KEY", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{[^}]*\}")


def is_secret_setting(resource: ConfigResource, name: str, entry: ConfigEntry | None) -> bool:
    """`entry` is the cluster's description of the setting; None for a setting that was never set."""
    if _SETTING.search(name) is not None:
        return True
    if entry is not None:
        return entry.is_sensitive
    # An unknown key may be a secret of a plug-in.
    return resource.type is ResourceType.BROKER and is_secret_of_broker(name)


def is_secret_of_connector(key: str, value: object, passwords: frozenset[str] = frozenset()) -> bool:
    """`passwords` are the keys that the connector itself defines as passwords."""
    text = str(value)
    # A reference to a secret is no secret.
    if _REFERENCE.fullmatch(text):
        return False
    return key in passwords or _CONNECTOR_KEY.search(key) is not None or _CONNECTOR_VALUE.search(text) is not None
