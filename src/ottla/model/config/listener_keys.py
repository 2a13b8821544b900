"""Keys that are set for one listener: `listener.name.<name in lower case>.<key>` (KIP-103)."""

from __future__ import annotations

from typing import Final

__all__ = ["LISTENER_PREFIX", "METRICS_LISTENER", "TLS_KEYS", "is_tls_of_listener"]

LISTENER_PREFIX: Final = "listener.name."

# The name by which the metrics endpoint has its TLS settings: listener.name.metrics.ssl.*.
METRICS_LISTENER: Final = "METRICS"

# Certificates and keys, which can change while the node runs. As in Apache Kafka, they may be set for a listener
# without TLS and have no effect there.
TLS_KEYS: Final = frozenset(
    (
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    )
)


def is_tls_of_listener(name: str) -> bool:
    """True if the key is one of `TLS_KEYS`, set for a single listener."""
    return name.startswith(LISTENER_PREFIX) and name[len(LISTENER_PREFIX) :].partition(".")[2] in TLS_KEYS
