"""Rules that hold in every image and between successive images, checked by tests and by the simulator."""

from __future__ import annotations

from ottla.metadata.image import NO_LEADER, BrokerImage, LeaderRecoveryState, MetadataImage, PartitionImage

__all__ = ["check_image", "check_step"]


def check_image(image: MetadataImage) -> None:
    """Asserts the rules of one image. A registration outlives its broker, so replicas may be on removed brokers."""
    topics = image.topics
    assert len(topics.by_name) == len(topics.by_id), "every topic has one name and one id"
    for name, topic in topics.by_name.items():
        assert topic.name == name, f"topic {topic.name} is listed as {name}"
        assert topics.by_id.get(topic.topic_id) is topic, f"topic {name} is another one by its id"
        assert sorted(topic.partitions) == list(range(len(topic.partitions))), f"topic {name} lacks partitions"
        for partition_id, partition in topic.partitions.items():
            _check_partition(f"{name}-{partition_id}", partition, image)
    _check_brokers(image)
    assert all(level > 0 for level in image.features.finalized.values()), "a feature at level 0 is absent"
    assert all(image.configs.by_resource.values()), "a resource without overrides is absent"


def check_step(before: MetadataImage, after: MetadataImage) -> None:
    """Asserts the rules between an image and a later image of the same node: offsets and epochs never go back."""
    assert after.cluster_id == before.cluster_id, "the cluster id changed"
    assert after.offset >= before.offset, f"offset {after.offset} follows offset {before.offset}"
    assert after.epoch >= before.epoch, f"quorum epoch {after.epoch} follows epoch {before.epoch}"
    assert after.producer_ids.next_producer_id >= before.producer_ids.next_producer_id, "producer ids are used again"
    for broker_id, broker in after.brokers.items():
        earlier = before.brokers.get(broker_id)
        if earlier is not None:
            _check_broker_step(earlier, broker)
    for topic_id, topic in after.topics.by_id.items():
        earlier_topic = before.topics.by_id.get(topic_id)
        if earlier_topic is None or earlier_topic is topic:
            continue
        assert topic.name == earlier_topic.name, f"topic {earlier_topic.name} became {topic.name}"
        for partition_id, earlier_partition in earlier_topic.partitions.items():
            assert partition_id in topic.partitions, f"partition {topic.name}-{partition_id} is gone"
            _check_partition_step(f"{topic.name}-{partition_id}", earlier_partition, topic.partitions[partition_id])


def _check_partition(name: str, partition: PartitionImage, image: MetadataImage) -> None:
    replicas, isr, elr = set(partition.replicas), set(partition.isr), set(partition.elr)
    assert replicas, f"{name} has no replicas"
    assert len(replicas) == len(partition.replicas), f"{name}: replicas {partition.replicas} repeat"
    assert len(isr) == len(partition.isr), f"{name}: in-sync replicas {partition.isr} repeat"
    assert isr <= replicas, f"{name}: in-sync replicas {partition.isr} are not all replicas {partition.replicas}"
    assert elr <= replicas, f"{name}: eligible leaders {partition.elr} are not all replicas {partition.replicas}"
    assert not isr & elr, f"{name}: {isr & elr} are in sync and eligible at once"
    adding, removing = set(partition.adding_replicas), set(partition.removing_replicas)
    assert adding | removing <= replicas, f"{name}: a reassignment moves {adding | removing}, which are not replicas"
    assert len(partition.directories) in (0, len(partition.replicas)), f"{name}: directories do not match replicas"
    assert 0 <= partition.leader_epoch <= partition.partition_epoch, f"{name}: leader epoch over partition epoch"
    if partition.leader == NO_LEADER:
        return
    assert partition.leader in isr, f"{name}: leader {partition.leader} is not in sync ({partition.isr})"
    leader = image.brokers.get(partition.leader)
    assert leader is not None, f"{name}: leader {partition.leader} is not registered"
    assert not leader.fenced, f"{name}: leader {partition.leader} is fenced"
    if partition.leader_recovery_state == LeaderRecoveryState.RECOVERING:
        assert isr == {partition.leader}, f"{name}: {partition.isr} are in sync while the leader recovers"


def _check_brokers(image: MetadataImage) -> None:
    owners: dict[bytes, int] = {}
    for broker_id, broker in image.brokers.items():
        assert broker.broker_id == broker_id, f"broker {broker.broker_id} is listed as {broker_id}"
        # The epoch of a broker is the offset of its registration.
        assert broker.broker_epoch <= image.offset, f"broker {broker_id} has an epoch after offset {image.offset}"
        for directory in broker.directories:
            owner = owners.setdefault(directory.bytes, broker_id)
            assert owner == broker_id, f"directory {directory} belongs to brokers {owner} and {broker_id}"


def _check_broker_step(before: BrokerImage, after: BrokerImage) -> None:
    name = f"broker {after.broker_id}"
    assert after.broker_epoch >= before.broker_epoch, f"{name}: epoch {after.broker_epoch} is older than before"
    if after.incarnation_id != before.incarnation_id:
        assert after.broker_epoch > before.broker_epoch, f"{name}: another process has the same epoch"


def _check_partition_step(name: str, before: PartitionImage, after: PartitionImage) -> None:
    assert after.leader_epoch >= before.leader_epoch, f"{name}: leader epoch {after.leader_epoch} is older than before"
    assert after.partition_epoch >= before.partition_epoch, f"{name}: the partition epoch went back"
    if after != before:
        assert after.partition_epoch > before.partition_epoch, (
            f"{name} changed in partition epoch {after.partition_epoch}"
        )
    if after.leader != before.leader:
        assert after.leader_epoch > before.leader_epoch, f"{name}: the leader changed in epoch {after.leader_epoch}"
