"""Why a key is inert or refused: one sentence for all the keys that share the reason.

Whoever builds the missing part takes its constant away here; what then no longer compiles has to become honoured.
"""

from __future__ import annotations

from typing import Final

from ottla.model.config.keys import inert, refused

__all__ = [
    "FIXED_PARTS",
    "GROUP_COMMIT",
    "JAVA_TLS",
    "KERBEROS",
    "KERBEROS_TUNING",
    "LISTENERS_TOGETHER",
    "METRICS",
    "NEW_GROUPS",
    "NO_AUTHENTICATION",
    "NO_AUTHORIZER",
    "NO_QUEUE",
    "ONE_LOOP",
    "ONE_PROCESS",
    "OWN_BUFFERS",
    "PARKED",
    "PLUG_INS",
    "SECURITY",
    "TELEMETRY",
    "TIERED_STORAGE",
    "TOKENS",
    "UNSTABLE",
]

# Inert: there is nothing the key could change.
FIXED_PARTS: Final = inert("it tunes a part of Apache Kafka that this node does not have")
GROUP_COMMIT: Final = inert("records that arrive while the metadata log is flushed are written together next")
JAVA_TLS: Final = inert("it names a part of Java's TLS")
KERBEROS_TUNING: Final = inert("it tunes Kerberos, which is not available")
LISTENERS_TOGETHER: Final = inert("all listeners open together once the node is ready")
METRICS: Final = inert("metrics are counted from the start on, without windows")
NEW_GROUPS: Final = inert("share groups and streams groups are not available yet")
NO_AUTHENTICATION: Final = inert("there is no authentication yet that could fail")
NO_QUEUE: Final = inert("a request is handled as soon as it has been read, so there is no queue of them to bound")
ONE_LOOP: Final = inert("one thread owns a node's state and a host runs one node per core, so there is no pool to size")
ONE_PROCESS: Final = inert("a failed directory is told with the next heartbeat that reaches the controller")
OWN_BUFFERS: Final = inert("compaction chooses the size of its buffers itself")
PARKED: Final = inert("a waiting request leaves its list the moment it is finished")
TELEMETRY: Final = inert("clients cannot push metrics yet")

# Refused: doing without would not be what was asked for.
KERBEROS: Final = refused("Kerberos is not available")
NO_AUTHORIZER: Final = refused("there is no authorizer yet, and a node must not look protected when it is not")
PLUG_INS: Final = refused("plug-in classes of Apache Kafka cannot be loaded")
SECURITY: Final = refused("TLS and SASL are not available yet")
TIERED_STORAGE: Final = refused("tiered storage is not available")
TOKENS: Final = refused("delegation tokens are not available yet")
UNSTABLE: Final = refused("no API version that is still under development is offered")
