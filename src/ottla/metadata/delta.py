"""The changes that metadata records make to an image: the only `replay` of the whole system.

A `MetadataDelta` starts from an image, replays records in log order, and builds the next image. A restart, a standby
and the active controller all use it, so the state after a crash equals the state that was answered before. Publishers
get the delta together with the image. `topics.changed`, `brokers_changed` and similar fields list the changes.

A record that refers to something unknown (a partition of a missing topic, a stale broker epoch) cannot come from a
correct log. It raises `CorruptMetadataError` and is not skipped, because images that silently differ between nodes are
worse than a node that stops.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from ottla.metadata.image import (
    AclEntry,
    AclsImage,
    BrokerImage,
    ClientQuotasImage,
    ClusterImage,
    ConfigResource,
    ConfigsImage,
    ControllerImage,
    DelegationTokenImage,
    Endpoint,
    FeaturesImage,
    MetadataImage,
    ProducerIdsImage,
    QuotaEntity,
    ScramCredential,
    TopicsImage,
)
from ottla.metadata.topics_delta import CorruptMetadataError, TopicDelta, TopicsDelta
from ottla.model.ids import Uuid
from ottla.model.slices import finish, in_portions
from ottla.wire.messages import metadata_records as r

__all__ = ["MetadataDelta", "CorruptMetadataError", "TopicDelta", "TopicsDelta"]

# Configurations or ACLs whose sections are built in one slice, which takes a few milliseconds.
ENTRIES_PER_SLICE = 2_000


class MetadataDelta:
    """Mutable while records are replayed; `apply` builds the new image."""

    __slots__ = (
        "_acls",
        "_brokers",
        "_configs",
        "_controllers",
        "_features",
        "_producer_ids",
        "_quotas",
        "_scram",
        "_tokens",
        "acls_changed",
        "brokers_changed",
        "configs_changed",
        "features_changed",
        "image",
        "quotas_changed",
        "topics",
    )

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.topics = TopicsDelta(image.topics)
        self.brokers_changed: set[int] = set()
        self.configs_changed: set[ConfigResource] = set()
        self.features_changed: set[str] = set()
        self.acls_changed: set[Uuid] = set()
        self.quotas_changed: set[QuotaEntity] = set()
        # Copies of the sections that a record has changed; None for unchanged sections.
        self._features: dict[str, int] | None = None
        self._brokers: dict[int, BrokerImage] | None = None
        self._controllers: dict[int, ControllerImage] | None = None
        self._configs: dict[ConfigResource, dict[str, str]] = {}
        self._quotas: dict[QuotaEntity, dict[str, float]] | None = None
        self._producer_ids: ProducerIdsImage | None = None
        self._acls: dict[Uuid, AclEntry | None] = {}
        self._scram: dict[tuple[str, int], ScramCredential] | None = None
        self._tokens: dict[str, DelegationTokenImage] | None = None

    def replay(self, record: Any) -> None:
        """Applies one record. Records must come in log order."""
        replayer = _REPLAYERS.get(type(record))
        if replayer is None:
            raise CorruptMetadataError(f"the metadata log contains a {type(record).__name__}, not a metadata record")
        replayer(self, record)

    def apply(self, *, offset: int, epoch: int, timestamp_ms: int) -> MetadataImage:
        """The image after all replayed records; `offset` is the offset of the last record."""
        # Most deltas change neither.
        configs = finish(self._applying_configs()) if self._configs else self.image.configs
        acls = finish(self._applying_acls()) if self._acls else self.image.acls
        return self._image(self.topics.apply(), configs, acls, offset=offset, epoch=epoch, timestamp_ms=timestamp_ms)

    def applying(self, *, offset: int, epoch: int, timestamp_ms: int) -> Generator[None, None, MetadataImage]:
        """`apply` that pauses after every slice. No record may be replayed meanwhile."""
        topics = yield from self.topics.applying()
        configs = yield from self._applying_configs()
        acls = yield from self._applying_acls()
        return self._image(topics, configs, acls, offset=offset, epoch=epoch, timestamp_ms=timestamp_ms)

    def _image(
        self, topics: TopicsImage, configs: ConfigsImage, acls: AclsImage, *, offset: int, epoch: int, timestamp_ms: int
    ) -> MetadataImage:
        before = self.image
        return MetadataImage(
            cluster_id=before.cluster_id,
            offset=offset,
            epoch=epoch,
            timestamp_ms=timestamp_ms,
            features=before.features if self._features is None else FeaturesImage(finalized=self._features),
            cluster=self._apply_cluster(),
            topics=topics,
            configs=configs,
            client_quotas=before.client_quotas
            if self._quotas is None
            else ClientQuotasImage(by_entity={entity: quota for entity, quota in self._quotas.items() if quota}),
            producer_ids=self._producer_ids or before.producer_ids,
            acls=acls,
            scram=before.scram if self._scram is None else self._scram,
            delegation_tokens=before.delegation_tokens if self._tokens is None else self._tokens,
        )

    def broker(self, broker_id: int) -> BrokerImage | None:
        """The broker after the records replayed so far."""
        return (self.image.cluster.brokers if self._brokers is None else self._brokers).get(broker_id)

    def _apply_cluster(self) -> ClusterImage:
        before = self.image.cluster
        if self._brokers is None and self._controllers is None:
            return before
        return ClusterImage(
            brokers=before.brokers if self._brokers is None else self._brokers,
            controllers=before.controllers if self._controllers is None else self._controllers,
        )

    def _applying_configs(self) -> Generator[None, None, ConfigsImage]:
        if not self._configs:
            return self.image.configs
        builder = self.image.configs.by_resource.builder()
        for portion in in_portions(self._configs.items(), ENTRIES_PER_SLICE):
            for resource, values in portion:
                if values:
                    builder[resource] = values
                elif builder.get(resource) is not None:
                    builder.remove(resource)
            yield
        return ConfigsImage(by_resource=builder.build())

    def _applying_acls(self) -> Generator[None, None, AclsImage]:
        if not self._acls:
            return self.image.acls
        by_id, ids = self.image.acls.by_id.builder(), self.image.acls.ids.builder()
        for portion in in_portions(self._acls.items(), ENTRIES_PER_SLICE):
            for identity, entry in portion:
                before = by_id.get(identity)
                if before is not None:
                    by_id.remove(identity)
                    if ids.get(before) == identity:
                        ids.remove(before)
                if entry is not None:
                    by_id[identity] = entry
                    ids[entry] = identity
            yield
        return AclsImage(by_id=by_id.build(), ids=ids.build())

    def _writable_brokers(self) -> dict[int, BrokerImage]:
        if self._brokers is None:
            self._brokers = dict(self.image.cluster.brokers)
        return self._brokers

    def _writable_config(self, resource: ConfigResource) -> dict[str, str]:
        values = self._configs.get(resource)
        if values is None:
            values = self._configs[resource] = dict(self.image.configs.by_resource.get(resource) or {})
        self.configs_changed.add(resource)
        return values

    def _registered(self, broker_id: int, broker_epoch: int, record_name: str) -> BrokerImage:
        broker = self.broker(broker_id)
        if broker is None:
            raise CorruptMetadataError(f"{record_name} names broker {broker_id}, which is not registered")
        if broker.broker_epoch != broker_epoch:
            raise CorruptMetadataError(
                f"{record_name} names epoch {broker_epoch} of broker {broker_id}, whose epoch is {broker.broker_epoch}"
            )
        return broker

    def _set_broker(self, broker: BrokerImage) -> None:
        self._writable_brokers()[broker.broker_id] = broker
        self.brokers_changed.add(broker.broker_id)

    # One method per record type, in the order of their numbers.

    def replay_register_broker(self, record: r.RegisterBrokerRecord) -> None:
        self._set_broker(
            BrokerImage(
                broker_id=record.broker_id,
                broker_epoch=record.broker_epoch,
                incarnation_id=record.incarnation_id,
                endpoints={
                    point.name: Endpoint(point.name, point.host, point.port, point.security_protocol)
                    for point in record.end_points
                },
                features={
                    feature.name: (feature.min_supported_version, feature.max_supported_version)
                    for feature in record.features
                },
                rack=record.rack,
                fenced=record.fenced,
                in_controlled_shutdown=record.in_controlled_shutdown,
                directories=tuple(record.log_dirs),
                cordoned_directories=None if record.cordoned_log_dirs is None else tuple(record.cordoned_log_dirs),
                is_migrating_zk_broker=record.is_migrating_zk_broker,
            )
        )

    def replay_unregister_broker(self, record: r.UnregisterBrokerRecord) -> None:
        self._registered(record.broker_id, record.broker_epoch, "UnregisterBrokerRecord")
        del self._writable_brokers()[record.broker_id]
        self.brokers_changed.add(record.broker_id)

    def replay_config(self, record: r.ConfigRecord) -> None:
        values = self._writable_config(ConfigResource(record.resource_type, record.resource_name))
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value

    def replay_fence_broker(self, record: r.FenceBrokerRecord) -> None:
        self._set_broker(self._registered(record.id, record.epoch, "FenceBrokerRecord")._replace(fenced=True))

    def replay_unfence_broker(self, record: r.UnfenceBrokerRecord) -> None:
        self._set_broker(self._registered(record.id, record.epoch, "UnfenceBrokerRecord")._replace(fenced=False))

    def replay_remove_topic(self, record: r.RemoveTopicRecord) -> None:
        removed = self.topics.replay_remove_topic(record)
        # Configurations belong to the name of a topic. A later topic of the same name starts without them.
        self._writable_config(ConfigResource(2, removed.name)).clear()

    def replay_delegation_token(self, record: r.DelegationTokenRecord) -> None:
        if self._tokens is None:
            self._tokens = dict(self.image.delegation_tokens)
        self._tokens[record.token_id] = DelegationTokenImage(
            owner=record.owner,
            requester=record.requester,
            renewers=tuple(record.renewers),
            issue_timestamp=record.issue_timestamp,
            max_timestamp=record.max_timestamp,
            expiration_timestamp=record.expiration_timestamp,
            token_id=record.token_id,
            owner_groups=tuple(record.owner_groups),
        )

    def replay_user_scram_credential(self, record: r.UserScramCredentialRecord) -> None:
        if self._scram is None:
            self._scram = dict(self.image.scram)
        self._scram[record.name, record.mechanism] = ScramCredential(
            salt=bytes(record.salt),
            stored_key=bytes(record.stored_key),
            server_key=bytes(record.server_key),
            iterations=record.iterations,
        )

    def replay_feature_level(self, record: r.FeatureLevelRecord) -> None:
        if self._features is None:
            self._features = dict(self.image.features.finalized)
        if record.feature_level == 0:
            self._features.pop(record.name, None)
        else:
            self._features[record.name] = record.feature_level
        self.features_changed.add(record.name)

    def replay_client_quota(self, record: r.ClientQuotaRecord) -> None:
        if self._quotas is None:
            self._quotas = {entity: dict(values) for entity, values in self.image.client_quotas.by_entity.items()}
        entity: QuotaEntity = tuple(sorted((part.entity_type, part.entity_name) for part in record.entity))
        values = self._quotas.setdefault(entity, {})
        if record.remove:
            values.pop(record.key, None)
        else:
            values[record.key] = record.value
        self.quotas_changed.add(entity)

    def replay_producer_ids(self, record: r.ProducerIdsRecord) -> None:
        self._producer_ids = ProducerIdsImage(
            next_producer_id=record.next_producer_id, broker_id=record.broker_id, broker_epoch=record.broker_epoch
        )

    def replay_broker_registration_change(self, record: r.BrokerRegistrationChangeRecord) -> None:
        broker = self._registered(record.broker_id, record.broker_epoch, "BrokerRegistrationChangeRecord")
        if record.fenced:
            broker = broker._replace(fenced=record.fenced > 0)
        if record.in_controlled_shutdown:
            broker = broker._replace(in_controlled_shutdown=True)
        if record.log_dirs:
            broker = broker._replace(directories=tuple(record.log_dirs))
        if record.cordoned_log_dirs is not None:
            broker = broker._replace(cordoned_directories=tuple(record.cordoned_log_dirs))
        self._set_broker(broker)

    def replay_access_control_entry(self, record: r.AccessControlEntryRecord) -> None:
        self._acls[record.id] = AclEntry(
            resource_type=record.resource_type,
            resource_name=record.resource_name,
            pattern_type=record.pattern_type,
            principal=record.principal,
            host=record.host,
            operation=record.operation,
            permission_type=record.permission_type,
        )
        self.acls_changed.add(record.id)

    def replay_remove_access_control_entry(self, record: r.RemoveAccessControlEntryRecord) -> None:
        self._acls[record.id] = None
        self.acls_changed.add(record.id)

    def replay_remove_user_scram_credential(self, record: r.RemoveUserScramCredentialRecord) -> None:
        if self._scram is None:
            self._scram = dict(self.image.scram)
        self._scram.pop((record.name, record.mechanism), None)

    def replay_remove_delegation_token(self, record: r.RemoveDelegationTokenRecord) -> None:
        if self._tokens is None:
            self._tokens = dict(self.image.delegation_tokens)
        self._tokens.pop(record.token_id, None)

    def replay_register_controller(self, record: r.RegisterControllerRecord) -> None:
        if self._controllers is None:
            self._controllers = dict(self.image.cluster.controllers)
        self._controllers[record.controller_id] = ControllerImage(
            controller_id=record.controller_id,
            incarnation_id=record.incarnation_id,
            endpoints={
                point.name: Endpoint(point.name, point.host, point.port, point.security_protocol)
                for point in record.end_points
            },
            features={
                feature.name: (feature.min_supported_version, feature.max_supported_version)
                for feature in record.features
            },
            zk_migration_ready=record.zk_migration_ready,
        )

    def replay_nothing(self, record: Any) -> None:
        """A record that changes nothing but the offset."""


_REPLAYERS: dict[type, Callable[[MetadataDelta, Any], object]] = {
    r.RegisterBrokerRecord: MetadataDelta.replay_register_broker,
    r.UnregisterBrokerRecord: MetadataDelta.replay_unregister_broker,
    r.TopicRecord: lambda delta, record: delta.topics.replay_topic(record),
    r.PartitionRecord: lambda delta, record: delta.topics.replay_partition(record),
    r.ConfigRecord: MetadataDelta.replay_config,
    r.PartitionChangeRecord: lambda delta, record: delta.topics.replay_partition_change(record),
    r.FenceBrokerRecord: MetadataDelta.replay_fence_broker,
    r.UnfenceBrokerRecord: MetadataDelta.replay_unfence_broker,
    r.RemoveTopicRecord: MetadataDelta.replay_remove_topic,
    r.DelegationTokenRecord: MetadataDelta.replay_delegation_token,
    r.UserScramCredentialRecord: MetadataDelta.replay_user_scram_credential,
    r.FeatureLevelRecord: MetadataDelta.replay_feature_level,
    r.ClientQuotaRecord: MetadataDelta.replay_client_quota,
    r.ProducerIdsRecord: MetadataDelta.replay_producer_ids,
    r.BrokerRegistrationChangeRecord: MetadataDelta.replay_broker_registration_change,
    r.AccessControlEntryRecord: MetadataDelta.replay_access_control_entry,
    r.RemoveAccessControlEntryRecord: MetadataDelta.replay_remove_access_control_entry,
    r.NoOpRecord: MetadataDelta.replay_nothing,
    # In logs of clusters that once ran with ZooKeeper; it has no effect.
    r.ZkMigrationStateRecord: MetadataDelta.replay_nothing,
    r.RemoveUserScramCredentialRecord: MetadataDelta.replay_remove_user_scram_credential,
    r.RemoveDelegationTokenRecord: MetadataDelta.replay_remove_delegation_token,
    r.RegisterControllerRecord: MetadataDelta.replay_register_controller,
    r.ClearElrRecord: lambda delta, record: delta.topics.replay_clear_elr(record),
}
