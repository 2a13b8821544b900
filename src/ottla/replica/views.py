"""The interfaces of replication to the cluster metadata and the controller.

The images, deltas and the controller gateway of `ottla.metadata` implement these protocols. The two packages do not
import each other, so that a partition can be tested with a few plain values, and metadata without a log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

from ottla.model.ids import Uuid

if TYPE_CHECKING:
    from ottla.model.deferred import Deferred
    from ottla.wire.message import Message, Request

__all__ = ["BrokerView", "ClusterView", "ControllerChannel", "DeltaView", "EndpointView", "PartitionView", "TopicView"]

R = TypeVar("R", bound="Message")


class ControllerChannel(Protocol):
    """The active controller, in this process or on another node."""

    def ask(self, request: Request[R]) -> Deferred[R]:
        """The controller's response; fails with KafkaError or PeerUnreachable."""


class PartitionView(Protocol):
    @property
    def replicas(self) -> tuple[int, ...]: ...
    @property
    def isr(self) -> tuple[int, ...]: ...
    @property
    def leader(self) -> int: ...
    @property
    def leader_epoch(self) -> int: ...
    @property
    def partition_epoch(self) -> int: ...
    def directory(self, broker_id: int) -> Uuid: ...


class TopicView(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def topic_id(self) -> Uuid: ...
    @property
    def partitions(self) -> Mapping[int, PartitionView]: ...


class _Topics(Protocol):
    def partition(self, topic: str, partition: int) -> PartitionView | None: ...
    @property
    def by_name(self) -> Mapping[str, TopicView]: ...
    @property
    def by_id(self) -> Mapping[Uuid, TopicView]: ...


class _Configs(Protocol):
    def of_topic(self, name: str) -> Mapping[str, str]: ...


class EndpointView(Protocol):
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...


class BrokerView(Protocol):
    @property
    def active(self) -> bool: ...
    @property
    def broker_epoch(self) -> int: ...
    @property
    def fenced(self) -> bool: ...
    @property
    def endpoints(self) -> Mapping[str, EndpointView]: ...
    @property
    def rack(self) -> str | None: ...


class ClusterView(Protocol):
    """A `MetadataImage`."""

    @property
    def topics(self) -> _Topics: ...
    @property
    def configs(self) -> _Configs: ...
    @property
    def brokers(self) -> Mapping[int, BrokerView]: ...


class _TopicDelta(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def changed(self) -> Mapping[int, PartitionView]: ...


class _TopicsDelta(Protocol):
    @property
    def changed(self) -> Mapping[Uuid, _TopicDelta]: ...
    @property
    def deleted(self) -> Mapping[Uuid, TopicView]: ...


class _ConfigResource(Protocol):
    @property
    def type(self) -> int: ...
    @property
    def name(self) -> str: ...


class DeltaView(Protocol):
    """A `MetadataDelta`."""

    @property
    def topics(self) -> _TopicsDelta: ...
    @property
    def configs_changed(self) -> Iterable[_ConfigResource]: ...
    @property
    def features_changed(self) -> Collection[str]: ...
