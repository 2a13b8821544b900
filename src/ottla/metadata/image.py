"""The cluster metadata at one offset of the metadata log, as immutable values.

A `MetadataImage` is the result of replaying every record up to `offset`. It is a tree of immutable values with one
section per kind of record; a section is shared with the previous image unless a record changed it. A reader takes
`holder.image` once and uses it for the whole request, so that it never sees a part of a change. No lock is needed.

Only `ottla.metadata.delta.MetadataDelta` creates images. Mappings in an image may be plain dicts for speed; they are
never written after the image is built. The classes are named tuples, because a node imports them on every start and
frozen dataclasses take several times as long to define.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple

from ottla.metadata.persistent import PersistentMap
from ottla.model.ids import Uuid

__all__ = [
    "AclEntry",
    "AclsImage",
    "BrokerImage",
    "CLIENT_ID",
    "ClientQuotasImage",
    "ClusterImage",
    "ConfigResource",
    "ConfigsImage",
    "ControllerImage",
    "DelegationTokenImage",
    "Endpoint",
    "FeaturesImage",
    "IP",
    "LeaderRecoveryState",
    "MetadataImage",
    "NO_LEADER",
    "PartitionImage",
    "ProducerIdsImage",
    "QuotaEntity",
    "ResourceType",
    "ScramCredential",
    "TopicImage",
    "TopicsImage",
    "USER",
]

NO_LEADER = -1

# The initial value of sections; shared by all images and never written.
_NOTHING: Mapping[Any, Any] = {}
_EMPTY: PersistentMap[Any, Any] = PersistentMap()


class LeaderRecoveryState(IntEnum):
    """RECOVERING after an unclean election, until the leader reports that it has recovered."""

    RECOVERED = 0
    RECOVERING = 1


# Apache Kafka writes this id for replicas from before directories had ids: the directory is unknown.
_MIGRATING = Uuid(bytes(15) + b"\x02")


class PartitionImage(NamedTuple):
    """One partition. Replicas are in order of preference; `directories` has the directory of each replica (KIP-858)."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[Uuid, ...] = ()
    leader_recovery_state: int = LeaderRecoveryState.RECOVERED
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    # Eligible leader replicas and the last known leader (KIP-966).
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding_replicas or self.removing_replicas)

    @property
    def preferred_leader(self) -> int:
        return self.replicas[0] if self.replicas else NO_LEADER

    def directory(self, broker_id: int) -> Uuid:
        """The directory of the broker's replica; the zero id if it is unknown or the broker is not a replica."""
        if broker_id in self.replicas:
            index = self.replicas.index(broker_id)
            if index < len(self.directories):
                directory = self.directories[index]
                return Uuid.ZERO if directory.bytes == _MIGRATING.bytes else directory
        return Uuid.ZERO


class TopicImage(NamedTuple):
    name: str
    topic_id: Uuid
    partitions: Mapping[int, PartitionImage]


class TopicsImage(NamedTuple):
    by_name: PersistentMap[str, TopicImage] = _EMPTY
    by_id: PersistentMap[Uuid, TopicImage] = _EMPTY
    # Names with '.' or '_', by the name with every '.' replaced by '_': metrics cannot distinguish such topics.
    by_collision_key: PersistentMap[str, tuple[str, ...]] = _EMPTY

    def partition(self, topic: str, partition: int) -> PartitionImage | None:
        image = self.by_name.get(topic)
        return None if image is None else image.partitions.get(partition)


class Endpoint(NamedTuple):
    """The address of a listener; security protocols: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL."""

    name: str
    host: str
    port: int
    security_protocol: int = 0


class BrokerImage(NamedTuple):
    """The registration of a broker. It outlives the process; only an administrator removes it."""

    broker_id: int
    broker_epoch: int
    incarnation_id: Uuid
    endpoints: Mapping[str, Endpoint]
    features: Mapping[str, tuple[int, int]]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool = False
    directories: tuple[Uuid, ...] = ()
    # None until the broker has reported them (metadata.version 4.3).
    cordoned_directories: tuple[Uuid, ...] | None = None
    is_migrating_zk_broker: bool = False

    @property
    def active(self) -> bool:
        """True if the broker may lead and be in sync: it is neither fenced nor shutting down."""
        return not self.fenced and not self.in_controlled_shutdown

    @property
    def host(self) -> str | None:
        """The host name that the broker advertises to clients; None if it has no listener for clients."""
        return next((endpoint.host for endpoint in self.endpoints.values()), None)

    @property
    def takes_new_replicas(self) -> bool:
        """False for a broker that is shutting down, and if all of its directories are cordoned (KIP-1066)."""
        if self.in_controlled_shutdown and not self.fenced:
            return False
        cordoned = self.cordoned_directories or ()
        return not self.directories or any(directory not in cordoned for directory in self.directories)


class ControllerImage(NamedTuple):
    controller_id: int
    incarnation_id: Uuid
    endpoints: Mapping[str, Endpoint]
    features: Mapping[str, tuple[int, int]]
    zk_migration_ready: bool = False


class ClusterImage(NamedTuple):
    brokers: Mapping[int, BrokerImage] = _NOTHING
    controllers: Mapping[int, ControllerImage] = _NOTHING


class ResourceType(IntEnum):
    """Types of configuration resources, with the numbers of the protocol."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigResource(NamedTuple):
    """`name` is empty for the default of all brokers."""

    type: int
    name: str


class ConfigsImage(NamedTuple):
    by_resource: PersistentMap[ConfigResource, Mapping[str, str]] = _EMPTY

    def of(self, resource_type: ResourceType, name: str) -> Mapping[str, str]:
        """The overrides of one resource; empty if it has none."""
        return self.by_resource.get(ConfigResource(resource_type, name)) or {}

    def of_topic(self, name: str) -> Mapping[str, str]:
        return self.of(ResourceType.TOPIC, name)

    def of_broker(self, broker_id: int) -> Mapping[str, str]:
        return self.of(ResourceType.BROKER, str(broker_id))

    def of_all_brokers(self) -> Mapping[str, str]:
        """The dynamic defaults of all brokers."""
        return self.of(ResourceType.BROKER, "")


class FeaturesImage(NamedTuple):
    """Finalised feature levels (KIP-584), `metadata.version` among them; a feature at level 0 is absent."""

    finalized: Mapping[str, int] = _NOTHING

    @property
    def metadata_version(self) -> int:
        return self.finalized.get("metadata.version", 0)

    @property
    def eligible_leader_replicas_enabled(self) -> bool:
        return self.finalized.get("eligible.leader.replicas.version", 0) > 0


class ProducerIdsImage(NamedTuple):
    next_producer_id: int = 0
    broker_id: int = -1
    broker_epoch: int = -1


# The types of quota entities.
USER, CLIENT_ID, IP = "user", "client-id", "ip"

# ((entity type, entity name or None for the default), ...), sorted by type.
QuotaEntity = tuple[tuple[str, str | None], ...]


class ClientQuotasImage(NamedTuple):
    by_entity: Mapping[QuotaEntity, Mapping[str, float]] = _NOTHING


class AclEntry(NamedTuple):
    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class AclsImage(NamedTuple):
    by_id: PersistentMap[Uuid, AclEntry] = _EMPTY
    # The same ACLs the other way round: no two of them are equal.
    ids: PersistentMap[AclEntry, Uuid] = _EMPTY


class ScramCredential(NamedTuple):
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        """The representation without keys and salt, because an image may be part of an error message."""
        return f"ScramCredential(iterations={self.iterations})"


class DelegationTokenImage(NamedTuple):
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    max_timestamp: int
    expiration_timestamp: int
    token_id: str
    # The groups of the owner when the token was created.
    owner_groups: tuple[str, ...] = ()


class MetadataImage(NamedTuple):
    """The cluster metadata up to and including `offset` of the metadata log."""

    cluster_id: str = ""
    offset: int = -1
    epoch: int = 0
    # The timestamp of the newest batch in the image, which its snapshot records.
    timestamp_ms: int = 0
    features: FeaturesImage = FeaturesImage()
    cluster: ClusterImage = ClusterImage()
    topics: TopicsImage = TopicsImage()
    configs: ConfigsImage = ConfigsImage()
    client_quotas: ClientQuotasImage = ClientQuotasImage()
    producer_ids: ProducerIdsImage = ProducerIdsImage()
    acls: AclsImage = AclsImage()
    scram: Mapping[tuple[str, int], ScramCredential] = _NOTHING
    delegation_tokens: Mapping[str, DelegationTokenImage] = _NOTHING

    @property
    def brokers(self) -> Mapping[int, BrokerImage]:
        return self.cluster.brokers
