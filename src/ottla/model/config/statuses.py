"""The reasons why keys are inert or refused; keys with the same reason share a constant.

When a missing feature is built, its constant is removed, and the keys that used it become honoured.
"""

from __future__ import annotations

from typing import Final

from ottla.model.config.keys import inert, refused

__all__ = [
    "FILE_ONLY",
    "FIXED_PARTS",
    "GROUP_COMMIT",
    "JAVA_TLS",
    "KERBEROS_TUNING",
    "LISTENERS_TOGETHER",
    "LOGIN_TUNING",
    "METRICS",
    "NEW_GROUPS",
    "ONE_LOOP",
    "ONE_PROCESS",
    "OWN_BUFFERS",
    "PARKED",
    "PER_MECHANISM",
    "PLUG_INS",
    "SECURITY",
    "TIERED_STORAGE",
    "UNSTABLE",
]

# Inert: the key has nothing to change.
FIXED_PARTS: Final = inert("it tunes a part of Apache Kafka that this node does not have")
GROUP_COMMIT: Final = inert("records that arrive during a flush of the metadata log are written together afterwards")
JAVA_TLS: Final = inert("it configures the TLS implementation of Java")
KERBEROS_TUNING: Final = inert("tickets are obtained with every login of a node, without a thread that renews them")
LISTENERS_TOGETHER: Final = inert("all listeners open together when the node is ready")
LOGIN_TUNING: Final = inert("a token is fetched with the next login of a node, without a thread that renews it")
METRICS: Final = inert("metrics are counters since the start of the node, without windows")
NEW_GROUPS: Final = inert("share groups and streams groups are not available yet")
ONE_LOOP: Final = inert("one thread owns a node's state and a host runs one node per core, so there is no thread pool")
ONE_PROCESS: Final = inert("a failed directory is reported in the next heartbeat that reaches the controller")
OWN_BUFFERS: Final = inert("compaction chooses the size of its buffers itself")
PARKED: Final = inert("a parked request leaves its list as soon as it is completed")

# The key is refused, because ignoring it would not do what the operator wants.
FILE_ONLY: Final = refused("references are resolved in properties files alone, never in values from clients")
PER_MECHANISM: Final = refused("it must be set for a mechanism: listener.name.<name>.<mechanism>.sasl.jaas.config")
PLUG_INS: Final = refused("plug-in classes of Apache Kafka cannot be loaded")
SECURITY: Final = refused("tokens are not requested with assertions; use a client's id and secret")
TIERED_STORAGE: Final = refused("tiered storage is not available")
UNSTABLE: Final = refused("API versions under development are not offered")
