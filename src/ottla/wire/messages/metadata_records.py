# Written by tools/generate_messages.py from definitions/metadata_records.txt: change the definition, not this file.
"""Metadata records.

Records of the metadata log, __cluster_metadata.
A value begins with frame version, record type and record version: see `ottla.wire.metadata_codec`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.model.ids import Uuid
from ottla.wire.message import EMPTY, Message, Structure

if TYPE_CHECKING:
    from ottla.wire.message import Buffer

__all__ = [
    "AbortTransactionRecord",
    "AccessControlEntryRecord",
    "BeginTransactionRecord",
    "BrokerEndpoint",
    "BrokerFeature",
    "BrokerRegistrationChangeRecord",
    "ClearElrRecord",
    "ClientQuotaRecord",
    "ConfigRecord",
    "ControllerEndpoint",
    "ControllerFeature",
    "DelegationTokenRecord",
    "EndTransactionRecord",
    "EntityData",
    "FeatureLevelRecord",
    "FenceBrokerRecord",
    "NoOpRecord",
    "PartitionChangeRecord",
    "PartitionRecord",
    "ProducerIdsRecord",
    "RECORD_CLASSES",
    "RegisterBrokerRecord",
    "RegisterControllerRecord",
    "RemoveAccessControlEntryRecord",
    "RemoveDelegationTokenRecord",
    "RemoveTopicRecord",
    "RemoveUserScramCredentialRecord",
    "TopicRecord",
    "UnfenceBrokerRecord",
    "UnregisterBrokerRecord",
    "UserScramCredentialRecord",
    "ZkMigrationStateRecord",
]


class BrokerEndpoint(Structure):
    """An element of `RegisterBrokerRecord.end_points`."""

    __slots__ = ("name", "host", "port", "security_protocol")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("host", "string", (0, 32767), None, None, "", False),
        ("port", "uint16", (0, 32767), None, None, 0, False),
        ("security_protocol", "int16", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        host: str = "",
        port: int = 0,
        security_protocol: int = 0,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.security_protocol = security_protocol


class BrokerFeature(Structure):
    """An element of `RegisterBrokerRecord.features`."""

    __slots__ = ("name", "min_supported_version", "max_supported_version")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("min_supported_version", "int16", (0, 32767), None, None, 0, False),
        ("max_supported_version", "int16", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        min_supported_version: int = 0,
        max_supported_version: int = 0,
    ) -> None:
        self.name = name
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version


class RegisterBrokerRecord(Message):
    """Record type 0, versions 0 to 4, flexible."""

    __slots__ = (
        "broker_id",
        "is_migrating_zk_broker",
        "incarnation_id",
        "broker_epoch",
        "end_points",
        "features",
        "rack",
        "fenced",
        "in_controlled_shutdown",
        "log_dirs",
        "cordoned_log_dirs",
    )

    API_KEY = 0
    VERSIONS = (0, 4)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("broker_id", "int32", (0, 32767), None, None, 0, False),
        ("is_migrating_zk_broker", "bool", (2, 32767), None, None, False, False),
        ("incarnation_id", "uuid", (0, 32767), None, None, 0, False),
        ("broker_epoch", "int64", (0, 32767), None, None, 0, False),
        ("end_points", "[BrokerEndpoint]", (0, 32767), None, None, (), False),
        ("features", "[BrokerFeature]", (0, 32767), None, None, (), False),
        ("rack", "string", (0, 32767), (0, 32767), None, "", False),
        ("fenced", "bool", (0, 32767), None, None, True, False),
        ("in_controlled_shutdown", "bool", (1, 32767), None, None, False, False),
        ("log_dirs", "[uuid]", (3, 32767), None, 0, (), False),
        ("cordoned_log_dirs", "[uuid]", (4, 32767), (0, 32767), 1, None, False),
    )

    def __init__(
        self,
        *,
        broker_id: int = 0,
        is_migrating_zk_broker: bool = False,
        incarnation_id: Uuid = Uuid.ZERO,
        broker_epoch: int = 0,
        end_points: list[BrokerEndpoint] = EMPTY,
        features: list[BrokerFeature] = EMPTY,
        rack: str | None = "",
        fenced: bool = True,
        in_controlled_shutdown: bool = False,
        log_dirs: list[Uuid] = EMPTY,
        cordoned_log_dirs: list[Uuid] | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.is_migrating_zk_broker = is_migrating_zk_broker
        self.incarnation_id = incarnation_id
        self.broker_epoch = broker_epoch
        self.end_points = [] if end_points is EMPTY else end_points
        self.features = [] if features is EMPTY else features
        self.rack = rack
        self.fenced = fenced
        self.in_controlled_shutdown = in_controlled_shutdown
        self.log_dirs = [] if log_dirs is EMPTY else log_dirs
        self.cordoned_log_dirs = cordoned_log_dirs


class UnregisterBrokerRecord(Message):
    """Record type 1, version 0, flexible."""

    __slots__ = ("broker_id", "broker_epoch")

    API_KEY = 1
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("broker_id", "int32", (0, 32767), None, None, 0, False),
        ("broker_epoch", "int64", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = 0,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch


class TopicRecord(Message):
    """Record type 2, version 0, flexible."""

    __slots__ = ("name", "topic_id")

    API_KEY = 2
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("topic_id", "uuid", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        topic_id: Uuid = Uuid.ZERO,
    ) -> None:
        self.name = name
        self.topic_id = topic_id


class PartitionRecord(Message):
    """Record type 3, versions 0 to 2, flexible."""

    __slots__ = (
        "partition_id",
        "topic_id",
        "replicas",
        "isr",
        "removing_replicas",
        "adding_replicas",
        "leader",
        "leader_recovery_state",
        "leader_epoch",
        "partition_epoch",
        "directories",
        "eligible_leader_replicas",
        "last_known_elr",
    )

    API_KEY = 3
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("partition_id", "int32", (0, 32767), None, None, -1, False),
        ("topic_id", "uuid", (0, 32767), None, None, 0, False),
        ("replicas", "[int32]", (0, 32767), None, None, (), False),
        ("isr", "[int32]", (0, 32767), None, None, (), False),
        ("removing_replicas", "[int32]", (0, 32767), None, None, (), False),
        ("adding_replicas", "[int32]", (0, 32767), None, None, (), False),
        ("leader", "int32", (0, 32767), None, None, -1, False),
        ("leader_recovery_state", "int8", (0, 32767), None, 0, 0, False),
        ("leader_epoch", "int32", (0, 32767), None, None, -1, False),
        ("partition_epoch", "int32", (0, 32767), None, None, -1, False),
        ("directories", "[uuid]", (1, 32767), None, None, (), False),
        ("eligible_leader_replicas", "[int32]", (2, 32767), (0, 32767), 1, None, False),
        ("last_known_elr", "[int32]", (2, 32767), (0, 32767), 2, None, False),
    )

    def __init__(
        self,
        *,
        partition_id: int = -1,
        topic_id: Uuid = Uuid.ZERO,
        replicas: list[int] = EMPTY,
        isr: list[int] = EMPTY,
        removing_replicas: list[int] = EMPTY,
        adding_replicas: list[int] = EMPTY,
        leader: int = -1,
        leader_recovery_state: int = 0,
        leader_epoch: int = -1,
        partition_epoch: int = -1,
        directories: list[Uuid] = EMPTY,
        eligible_leader_replicas: list[int] | None = None,
        last_known_elr: list[int] | None = None,
    ) -> None:
        self.partition_id = partition_id
        self.topic_id = topic_id
        self.replicas = [] if replicas is EMPTY else replicas
        self.isr = [] if isr is EMPTY else isr
        self.removing_replicas = [] if removing_replicas is EMPTY else removing_replicas
        self.adding_replicas = [] if adding_replicas is EMPTY else adding_replicas
        self.leader = leader
        self.leader_recovery_state = leader_recovery_state
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.directories = [] if directories is EMPTY else directories
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr


class ConfigRecord(Message):
    """Record type 4, version 0, flexible."""

    __slots__ = ("resource_type", "resource_name", "name", "value")

    API_KEY = 4
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("resource_type", "int8", (0, 32767), None, None, 0, False),
        ("resource_name", "string", (0, 32767), None, None, "", False),
        ("name", "string", (0, 32767), None, None, "", False),
        ("value", "string", (0, 32767), (0, 32767), None, "", False),
    )

    def __init__(
        self,
        *,
        resource_type: int = 0,
        resource_name: str = "",
        name: str = "",
        value: str | None = "",
    ) -> None:
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.name = name
        self.value = value


class PartitionChangeRecord(Message):
    """Record type 5, versions 0 to 2, flexible."""

    __slots__ = (
        "partition_id",
        "topic_id",
        "isr",
        "leader",
        "replicas",
        "removing_replicas",
        "adding_replicas",
        "leader_recovery_state",
        "directories",
        "eligible_leader_replicas",
        "last_known_elr",
    )

    API_KEY = 5
    VERSIONS = (0, 2)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("partition_id", "int32", (0, 32767), None, None, -1, False),
        ("topic_id", "uuid", (0, 32767), None, None, 0, False),
        ("isr", "[int32]", (0, 32767), (0, 32767), 0, None, False),
        ("leader", "int32", (0, 32767), None, 1, -2, False),
        ("replicas", "[int32]", (0, 32767), (0, 32767), 2, None, False),
        ("removing_replicas", "[int32]", (0, 32767), (0, 32767), 3, None, False),
        ("adding_replicas", "[int32]", (0, 32767), (0, 32767), 4, None, False),
        ("leader_recovery_state", "int8", (0, 32767), None, 5, -1, False),
        ("directories", "[uuid]", (1, 32767), (0, 32767), 8, None, False),
        ("eligible_leader_replicas", "[int32]", (2, 32767), (0, 32767), 6, None, False),
        ("last_known_elr", "[int32]", (2, 32767), (0, 32767), 7, None, False),
    )

    def __init__(
        self,
        *,
        partition_id: int = -1,
        topic_id: Uuid = Uuid.ZERO,
        isr: list[int] | None = None,
        leader: int = -2,
        replicas: list[int] | None = None,
        removing_replicas: list[int] | None = None,
        adding_replicas: list[int] | None = None,
        leader_recovery_state: int = -1,
        directories: list[Uuid] | None = None,
        eligible_leader_replicas: list[int] | None = None,
        last_known_elr: list[int] | None = None,
    ) -> None:
        self.partition_id = partition_id
        self.topic_id = topic_id
        self.isr = isr
        self.leader = leader
        self.replicas = replicas
        self.removing_replicas = removing_replicas
        self.adding_replicas = adding_replicas
        self.leader_recovery_state = leader_recovery_state
        self.directories = directories
        self.eligible_leader_replicas = eligible_leader_replicas
        self.last_known_elr = last_known_elr


class FenceBrokerRecord(Message):
    """Record type 7, version 0, flexible."""

    __slots__ = ("id", "epoch")

    API_KEY = 7
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("id", "int32", (0, 32767), None, None, 0, False),
        ("epoch", "int64", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        id: int = 0,
        epoch: int = 0,
    ) -> None:
        self.id = id
        self.epoch = epoch


class UnfenceBrokerRecord(Message):
    """Record type 8, version 0, flexible."""

    __slots__ = ("id", "epoch")

    API_KEY = 8
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("id", "int32", (0, 32767), None, None, 0, False),
        ("epoch", "int64", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        id: int = 0,
        epoch: int = 0,
    ) -> None:
        self.id = id
        self.epoch = epoch


class RemoveTopicRecord(Message):
    """Record type 9, version 0, flexible."""

    __slots__ = ("topic_id",)

    API_KEY = 9
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (("topic_id", "uuid", (0, 32767), None, None, 0, False),)

    def __init__(
        self,
        *,
        topic_id: Uuid = Uuid.ZERO,
    ) -> None:
        self.topic_id = topic_id


class DelegationTokenRecord(Message):
    """Record type 10, version 0, flexible.

    The groups of the owner are a field of Ottla. Apache Kafka has no groups and skips the tag, whose number is far from its
    own ones.
    """

    __slots__ = (
        "owner",
        "requester",
        "renewers",
        "issue_timestamp",
        "max_timestamp",
        "expiration_timestamp",
        "token_id",
        "owner_groups",
    )

    API_KEY = 10
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("owner", "string", (0, 32767), None, None, "", False),
        ("requester", "string", (0, 32767), None, None, "", False),
        ("renewers", "[string]", (0, 32767), None, None, (), False),
        ("issue_timestamp", "int64", (0, 32767), None, None, 0, False),
        ("max_timestamp", "int64", (0, 32767), None, None, 0, False),
        ("expiration_timestamp", "int64", (0, 32767), None, None, 0, False),
        ("token_id", "string", (0, 32767), None, None, "", False),
        ("owner_groups", "[string]", (0, 32767), None, 10000, (), False),
    )

    def __init__(
        self,
        *,
        owner: str = "",
        requester: str = "",
        renewers: list[str] = EMPTY,
        issue_timestamp: int = 0,
        max_timestamp: int = 0,
        expiration_timestamp: int = 0,
        token_id: str = "",
        owner_groups: list[str] = EMPTY,
    ) -> None:
        self.owner = owner
        self.requester = requester
        self.renewers = [] if renewers is EMPTY else renewers
        self.issue_timestamp = issue_timestamp
        self.max_timestamp = max_timestamp
        self.expiration_timestamp = expiration_timestamp
        self.token_id = token_id
        self.owner_groups = [] if owner_groups is EMPTY else owner_groups


class UserScramCredentialRecord(Message):
    """Record type 11, version 0, flexible."""

    __slots__ = ("name", "mechanism", "salt", "stored_key", "server_key", "iterations")

    API_KEY = 11
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("mechanism", "int8", (0, 32767), None, None, 0, False),
        ("salt", "bytes", (0, 32767), None, None, b"", False),
        ("stored_key", "bytes", (0, 32767), None, None, b"", False),
        ("server_key", "bytes", (0, 32767), None, None, b"", False),
        ("iterations", "int32", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        mechanism: int = 0,
        salt: Buffer = b"",
        stored_key: Buffer = b"",
        server_key: Buffer = b"",
        iterations: int = 0,
    ) -> None:
        self.name = name
        self.mechanism = mechanism
        self.salt = salt
        self.stored_key = stored_key
        self.server_key = server_key
        self.iterations = iterations


class FeatureLevelRecord(Message):
    """Record type 12, version 0, flexible."""

    __slots__ = ("name", "feature_level")

    API_KEY = 12
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("feature_level", "int16", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        feature_level: int = 0,
    ) -> None:
        self.name = name
        self.feature_level = feature_level


class EntityData(Structure):
    """An element of `ClientQuotaRecord.entity`."""

    __slots__ = ("entity_type", "entity_name")

    FIELDS = (
        ("entity_type", "string", (0, 32767), None, None, "", False),
        ("entity_name", "string", (0, 32767), (0, 32767), None, "", False),
    )

    def __init__(
        self,
        *,
        entity_type: str = "",
        entity_name: str | None = "",
    ) -> None:
        self.entity_type = entity_type
        self.entity_name = entity_name


class ClientQuotaRecord(Message):
    """Record type 14, version 0, flexible."""

    __slots__ = ("entity", "key", "value", "remove")

    API_KEY = 14
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("entity", "[EntityData]", (0, 32767), None, None, (), False),
        ("key", "string", (0, 32767), None, None, "", False),
        ("value", "float64", (0, 32767), None, None, 0.0, False),
        ("remove", "bool", (0, 32767), None, None, False, False),
    )

    def __init__(
        self,
        *,
        entity: list[EntityData] = EMPTY,
        key: str = "",
        value: float = 0.0,
        remove: bool = False,
    ) -> None:
        self.entity = [] if entity is EMPTY else entity
        self.key = key
        self.value = value
        self.remove = remove


class ProducerIdsRecord(Message):
    """Record type 15, version 0, flexible."""

    __slots__ = ("broker_id", "broker_epoch", "next_producer_id")

    API_KEY = 15
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("broker_id", "int32", (0, 32767), None, None, 0, False),
        ("broker_epoch", "int64", (0, 32767), None, None, -1, False),
        ("next_producer_id", "int64", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = -1,
        next_producer_id: int = 0,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.next_producer_id = next_producer_id


class BrokerRegistrationChangeRecord(Message):
    """Record type 17, versions 0 to 3, flexible."""

    __slots__ = ("broker_id", "broker_epoch", "fenced", "in_controlled_shutdown", "log_dirs", "cordoned_log_dirs")

    API_KEY = 17
    VERSIONS = (0, 3)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("broker_id", "int32", (0, 32767), None, None, 0, False),
        ("broker_epoch", "int64", (0, 32767), None, None, 0, False),
        ("fenced", "int8", (0, 32767), None, 0, 0, False),
        ("in_controlled_shutdown", "int8", (1, 32767), None, 1, 0, False),
        ("log_dirs", "[uuid]", (2, 32767), None, 2, (), False),
        ("cordoned_log_dirs", "[uuid]", (3, 32767), (0, 32767), 3, None, False),
    )

    def __init__(
        self,
        *,
        broker_id: int = 0,
        broker_epoch: int = 0,
        fenced: int = 0,
        in_controlled_shutdown: int = 0,
        log_dirs: list[Uuid] = EMPTY,
        cordoned_log_dirs: list[Uuid] | None = None,
    ) -> None:
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.fenced = fenced
        self.in_controlled_shutdown = in_controlled_shutdown
        self.log_dirs = [] if log_dirs is EMPTY else log_dirs
        self.cordoned_log_dirs = cordoned_log_dirs


class AccessControlEntryRecord(Message):
    """Record type 18, version 0, flexible."""

    __slots__ = (
        "id",
        "resource_type",
        "resource_name",
        "pattern_type",
        "principal",
        "host",
        "operation",
        "permission_type",
    )

    API_KEY = 18
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("id", "uuid", (0, 32767), None, None, 0, False),
        ("resource_type", "int8", (0, 32767), None, None, 0, False),
        ("resource_name", "string", (0, 32767), None, None, "", False),
        ("pattern_type", "int8", (0, 32767), None, None, 0, False),
        ("principal", "string", (0, 32767), None, None, "", False),
        ("host", "string", (0, 32767), None, None, "", False),
        ("operation", "int8", (0, 32767), None, None, 0, False),
        ("permission_type", "int8", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        id: Uuid = Uuid.ZERO,
        resource_type: int = 0,
        resource_name: str = "",
        pattern_type: int = 0,
        principal: str = "",
        host: str = "",
        operation: int = 0,
        permission_type: int = 0,
    ) -> None:
        self.id = id
        self.resource_type = resource_type
        self.resource_name = resource_name
        self.pattern_type = pattern_type
        self.principal = principal
        self.host = host
        self.operation = operation
        self.permission_type = permission_type


class RemoveAccessControlEntryRecord(Message):
    """Record type 19, version 0, flexible."""

    __slots__ = ("id",)

    API_KEY = 19
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (("id", "uuid", (0, 32767), None, None, 0, False),)

    def __init__(
        self,
        *,
        id: Uuid = Uuid.ZERO,
    ) -> None:
        self.id = id


class NoOpRecord(Message):
    """Record type 20, version 0, flexible."""

    __slots__ = ()

    API_KEY = 20
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0


class ZkMigrationStateRecord(Message):
    """Record type 21, version 0, flexible."""

    __slots__ = ("zk_migration_state",)

    API_KEY = 21
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (("zk_migration_state", "int8", (0, 32767), None, None, 0, False),)

    def __init__(
        self,
        *,
        zk_migration_state: int = 0,
    ) -> None:
        self.zk_migration_state = zk_migration_state


class RemoveUserScramCredentialRecord(Message):
    """Record type 22, version 0, flexible."""

    __slots__ = ("name", "mechanism")

    API_KEY = 22
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("mechanism", "int8", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        mechanism: int = 0,
    ) -> None:
        self.name = name
        self.mechanism = mechanism


class BeginTransactionRecord(Message):
    """Record type 23, version 0, flexible."""

    __slots__ = ("name",)

    API_KEY = 23
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (("name", "string", (0, 32767), (0, 32767), 0, None, False),)

    def __init__(
        self,
        *,
        name: str | None = None,
    ) -> None:
        self.name = name


class EndTransactionRecord(Message):
    """Record type 24, version 0, flexible."""

    __slots__ = ()

    API_KEY = 24
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0


class AbortTransactionRecord(Message):
    """Record type 25, version 0, flexible."""

    __slots__ = ("reason",)

    API_KEY = 25
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (("reason", "string", (0, 32767), (0, 32767), 0, None, False),)

    def __init__(
        self,
        *,
        reason: str | None = None,
    ) -> None:
        self.reason = reason


class RemoveDelegationTokenRecord(Message):
    """Record type 26, version 0, flexible."""

    __slots__ = ("token_id",)

    API_KEY = 26
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (("token_id", "string", (0, 32767), None, None, "", False),)

    def __init__(
        self,
        *,
        token_id: str = "",
    ) -> None:
        self.token_id = token_id


class ControllerEndpoint(Structure):
    """An element of `RegisterControllerRecord.end_points`."""

    __slots__ = ("name", "host", "port", "security_protocol")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("host", "string", (0, 32767), None, None, "", False),
        ("port", "uint16", (0, 32767), None, None, 0, False),
        ("security_protocol", "int16", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        host: str = "",
        port: int = 0,
        security_protocol: int = 0,
    ) -> None:
        self.name = name
        self.host = host
        self.port = port
        self.security_protocol = security_protocol


class ControllerFeature(Structure):
    """An element of `RegisterControllerRecord.features`."""

    __slots__ = ("name", "min_supported_version", "max_supported_version")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("min_supported_version", "int16", (0, 32767), None, None, 0, False),
        ("max_supported_version", "int16", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        min_supported_version: int = 0,
        max_supported_version: int = 0,
    ) -> None:
        self.name = name
        self.min_supported_version = min_supported_version
        self.max_supported_version = max_supported_version


class RegisterControllerRecord(Message):
    """Record type 27, version 0, flexible."""

    __slots__ = ("controller_id", "incarnation_id", "zk_migration_ready", "end_points", "features")

    API_KEY = 27
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("controller_id", "int32", (0, 32767), None, None, 0, False),
        ("incarnation_id", "uuid", (0, 32767), None, None, 0, False),
        ("zk_migration_ready", "bool", (0, 32767), None, None, False, False),
        ("end_points", "[ControllerEndpoint]", (0, 32767), None, None, (), False),
        ("features", "[ControllerFeature]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        controller_id: int = 0,
        incarnation_id: Uuid = Uuid.ZERO,
        zk_migration_ready: bool = False,
        end_points: list[ControllerEndpoint] = EMPTY,
        features: list[ControllerFeature] = EMPTY,
    ) -> None:
        self.controller_id = controller_id
        self.incarnation_id = incarnation_id
        self.zk_migration_ready = zk_migration_ready
        self.end_points = [] if end_points is EMPTY else end_points
        self.features = [] if features is EMPTY else features


class ClearElrRecord(Message):
    """Record type 28, version 0, flexible."""

    __slots__ = ("topic_name",)

    API_KEY = 28
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (("topic_name", "string", (0, 32767), None, None, "", False),)

    def __init__(
        self,
        *,
        topic_name: str = "",
    ) -> None:
        self.topic_name = topic_name


RECORD_CLASSES: dict[int, type[Message]] = {
    0: RegisterBrokerRecord,
    1: UnregisterBrokerRecord,
    2: TopicRecord,
    3: PartitionRecord,
    4: ConfigRecord,
    5: PartitionChangeRecord,
    7: FenceBrokerRecord,
    8: UnfenceBrokerRecord,
    9: RemoveTopicRecord,
    10: DelegationTokenRecord,
    11: UserScramCredentialRecord,
    12: FeatureLevelRecord,
    14: ClientQuotaRecord,
    15: ProducerIdsRecord,
    17: BrokerRegistrationChangeRecord,
    18: AccessControlEntryRecord,
    19: RemoveAccessControlEntryRecord,
    20: NoOpRecord,
    21: ZkMigrationStateRecord,
    22: RemoveUserScramCredentialRecord,
    23: BeginTransactionRecord,
    24: EndTransactionRecord,
    25: AbortTransactionRecord,
    26: RemoveDelegationTokenRecord,
    27: RegisterControllerRecord,
    28: ClearElrRecord,
}
