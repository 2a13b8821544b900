"""Creates the store that a specification describes."""

from __future__ import annotations

from ottla.streams.serdes import Serde
from ottla.streams.state.buffers import JoinBuffer, SuppressBuffer
from ottla.streams.state.expiring import ExpiringStore
from ottla.streams.state.key_value import KeyValueStore, LruStore, TimestampedKeyValueStore
from ottla.streams.state.outer_join import OuterJoinStore
from ottla.streams.state.session import SessionStore
from ottla.streams.state.specification import StoreKind, StoreSpecification
from ottla.streams.state.store import Store, StoreOwner
from ottla.streams.state.subscriptions import SubscriptionStore
from ottla.streams.state.versioned import VersionedStore
from ottla.streams.state.window import TimestampedWindowStore, WindowStore

__all__ = ["create_store"]

_CLASSES: dict[StoreKind, type[Store]] = {
    StoreKind.KEY_VALUE: KeyValueStore,
    StoreKind.TIMESTAMPED: TimestampedKeyValueStore,
    StoreKind.VERSIONED: VersionedStore,
    StoreKind.WINDOW: WindowStore,
    StoreKind.TIMESTAMPED_WINDOW: TimestampedWindowStore,
    StoreKind.SESSION: SessionStore,
    StoreKind.LRU: LruStore,
    StoreKind.SUPPRESS: SuppressBuffer,
    StoreKind.OUTER_JOIN: OuterJoinStore,
    StoreKind.JOIN_BUFFER: JoinBuffer,
    StoreKind.SUBSCRIPTION: SubscriptionStore,
}


def create_store(
    specification: StoreSpecification, owner: StoreOwner, topic: str, key_serde: Serde, value_serde: Serde
) -> Store:
    """An empty store. The serdes are those of the specification, or the defaults of the application."""
    kind = ExpiringStore if specification.time_to_live_ms else _CLASSES[specification.kind]
    return kind(specification, owner, topic, key_serde, value_serde)
