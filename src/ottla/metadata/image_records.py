"""The records that build an image: the content of a snapshot.

The order is the one that replay requires: features first, because they determine how the rest is read, and topics
before their partitions. Every section is sorted, so that equal images give equal snapshots.

Most partitions of a large topic equal another one, so `image_values` encodes their records once (`record_encoding`).
"""

from __future__ import annotations

from collections.abc import Iterator

from ottla.metadata.image import MetadataImage, PartitionImage, TopicImage
from ottla.metadata.record_encoding import ALIKE_MAX, PartitionValues
from ottla.metadata.versions import DIRECTORIES_LEVEL, METADATA_VERSION, encode_for
from ottla.wire.message import Message
from ottla.wire.messages import metadata_records as r

__all__ = ["image_records", "image_values"]


def image_records(image: MetadataImage) -> Iterator[Message]:
    yield from _first_records(image)
    yield from _topic_records(image)
    yield from _last_records(image)


def image_values(image: MetadataImage) -> Iterator[bytes]:
    """The encoded records, in the versions that the finalised level allows."""
    level = image.features.metadata_version
    for record in _first_records(image):
        yield encode_for(record, level)
    yield from _topic_values(image)
    for record in _last_records(image):
        yield encode_for(record, level)


def _first_records(image: MetadataImage) -> Iterator[Message]:
    yield from _feature_records(image)
    yield from _cluster_records(image)


def _last_records(image: MetadataImage) -> Iterator[Message]:
    for resource in sorted(image.configs.by_resource):
        for name, value in sorted(image.configs.by_resource[resource].items()):
            yield r.ConfigRecord(resource_type=resource.type, resource_name=resource.name, name=name, value=value)
    for entity, quotas in sorted(image.client_quotas.by_entity.items(), key=repr):
        parts = [r.EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
        for key, quota in sorted(quotas.items()):
            yield r.ClientQuotaRecord(entity=parts, key=key, value=quota, remove=False)
    if image.producer_ids.next_producer_id:
        yield r.ProducerIdsRecord(
            broker_id=image.producer_ids.broker_id,
            broker_epoch=image.producer_ids.broker_epoch,
            next_producer_id=image.producer_ids.next_producer_id,
        )
    yield from _security_records(image)


def _feature_records(image: MetadataImage) -> Iterator[Message]:
    levels = image.features.finalized
    # metadata.version is the first record.
    for name in sorted(levels, key=lambda feature: (feature != METADATA_VERSION, feature)):
        yield r.FeatureLevelRecord(name=name, feature_level=levels[name])


def _cluster_records(image: MetadataImage) -> Iterator[Message]:
    for _, broker in sorted(image.cluster.brokers.items()):
        yield r.RegisterBrokerRecord(
            broker_id=broker.broker_id,
            is_migrating_zk_broker=broker.is_migrating_zk_broker,
            incarnation_id=broker.incarnation_id,
            broker_epoch=broker.broker_epoch,
            end_points=[
                r.BrokerEndpoint(
                    name=point.name, host=point.host, port=point.port, security_protocol=point.security_protocol
                )
                for point in broker.endpoints.values()
            ],
            features=[
                r.BrokerFeature(name=name, min_supported_version=lowest, max_supported_version=highest)
                for name, (lowest, highest) in broker.features.items()
            ],
            rack=broker.rack,
            fenced=broker.fenced,
            in_controlled_shutdown=broker.in_controlled_shutdown,
            log_dirs=list(broker.directories),
            cordoned_log_dirs=None if broker.cordoned_directories is None else list(broker.cordoned_directories),
        )
    for _, controller in sorted(image.cluster.controllers.items()):
        yield r.RegisterControllerRecord(
            controller_id=controller.controller_id,
            incarnation_id=controller.incarnation_id,
            zk_migration_ready=controller.zk_migration_ready,
            end_points=[
                r.ControllerEndpoint(
                    name=point.name, host=point.host, port=point.port, security_protocol=point.security_protocol
                )
                for point in controller.endpoints.values()
            ],
            features=[
                r.ControllerFeature(name=name, min_supported_version=lowest, max_supported_version=highest)
                for name, (lowest, highest) in controller.features.items()
            ],
        )


def _topic_records(image: MetadataImage) -> Iterator[Message]:
    has_directories = image.features.metadata_version >= DIRECTORIES_LEVEL
    for name in sorted(image.topics.by_name):
        topic = image.topics.by_name[name]
        yield r.TopicRecord(name=topic.name, topic_id=topic.topic_id)
        for partition_id in sorted(topic.partitions):
            yield _partition_record(topic, partition_id, topic.partitions[partition_id], has_directories)


def _topic_values(image: MetadataImage) -> Iterator[bytes]:
    """The encoded `_topic_records`."""
    level = image.features.metadata_version
    has_directories = level >= DIRECTORIES_LEVEL
    for name in sorted(image.topics.by_name):
        topic = image.topics.by_name[name]
        yield encode_for(r.TopicRecord(name=topic.name, topic_id=topic.topic_id), level)
        values_by_image: dict[PartitionImage, PartitionValues] = {}
        for partition_id, partition in sorted(topic.partitions.items()):
            alike = values_by_image.get(partition)
            if alike is None:
                if len(values_by_image) >= ALIKE_MAX:
                    values_by_image.clear()
                value = encode_for(_partition_record(topic, partition_id, partition, has_directories), level)
                alike = values_by_image[partition] = PartitionValues(value)
            yield alike.of(partition_id)


def _partition_record(
    topic: TopicImage, partition_id: int, partition: PartitionImage, has_directories: bool
) -> r.PartitionRecord:
    return r.PartitionRecord(
        partition_id=partition_id,
        topic_id=topic.topic_id,
        replicas=list(partition.replicas),
        isr=list(partition.isr),
        removing_replicas=list(partition.removing_replicas),
        adding_replicas=list(partition.adding_replicas),
        leader=partition.leader,
        leader_recovery_state=partition.leader_recovery_state,
        leader_epoch=partition.leader_epoch,
        partition_epoch=partition.partition_epoch,
        directories=list(partition.directories) if has_directories else [],
        eligible_leader_replicas=list(partition.elr) or None,
        last_known_elr=list(partition.last_known_elr) or None,
    )


def _security_records(image: MetadataImage) -> Iterator[Message]:
    for identity in sorted(image.acls.by_id):
        entry = image.acls.by_id[identity]
        yield r.AccessControlEntryRecord(id=identity, **entry._asdict())
    for (user, mechanism), credential in sorted(image.scram.items()):
        yield r.UserScramCredentialRecord(name=user, mechanism=mechanism, **credential._asdict())
    for _, token in sorted(image.delegation_tokens.items()):
        lists = {"renewers": list(token.renewers), "owner_groups": list(token.owner_groups)}
        yield r.DelegationTokenRecord(**{**token._asdict(), **lists})
