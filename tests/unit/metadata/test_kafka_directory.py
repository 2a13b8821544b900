"""The metadata of a data directory that Apache Kafka 4.3 wrote."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.metadata.controller import Controller
from ottla.metadata.format import format_storage
from ottla.model.config import BrokerConfig
from ottla.model.errors import ErrorCode
from ottla.quorum.voter_log import VoterLog
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from tests.support.kafka_directory import unpack_kafka_directory
from tests.support.quorum import open_single_voter
from tests.support.virtual_world import VirtualWorld
from tests.unit.metadata.harness import done, registration


@pytest.fixture
def directory(tmp_path: Path) -> str:
    return str(unpack_kafka_directory(tmp_path))


def open_controller(virtual: VirtualWorld, directory: str) -> tuple[VoterLog, Controller]:
    meta = dict(line.split("=") for line in Path(directory, "meta.properties").read_text().split() if "=" in line)
    node_id = int(meta["node.id"])
    config = BrokerConfig.embedded(
        {"node.id": str(node_id), "controller.quorum.voters": f"{node_id}@127.0.0.1:9093", "log.dirs": directory}
    )
    storage = format_storage(
        virtual.files,
        log_dirs=[directory],
        metadata_log_dir=directory,
        node_id=node_id,
        random=virtual.random,
        now_ms=virtual.clock.ms,
        may_format=False,
    )
    assert storage.cluster_id == meta["cluster.id"]
    log = open_single_voter(
        world=virtual.world,
        metadata_log_dir=directory,
        node_id=node_id,
        directory_id=storage.directory_ids[directory],
    )
    controller = Controller.open(
        world=virtual.world, log=log, config=config, cluster_id=storage.cluster_id, metadata_log_dir=directory
    )
    return log, controller


def test_topics_configurations_and_features_are_read(directory: str) -> None:
    log, controller = open_controller(VirtualWorld(immediate_workers=True), directory)
    image = controller.image
    on_disk = {(topic.name, partition) for topic in image.topics.by_name.values() for partition in topic.partitions}
    directories = {path.name for path in Path(directory).iterdir() if path.is_dir()} - {"__cluster_metadata-0"}
    assert {f"{topic}-{partition}" for topic, partition in on_disk} == directories
    assert image.features.finalized["metadata.version"] == 30
    assert image.configs.of_topic("compacted")["cleanup.policy"] == "compact"
    for topic in image.topics.by_name.values():
        partition_metadata = Path(directory, f"{topic.name}-0", "partition.metadata").read_text()
        assert f"topic_id: {topic.topic_id}" in partition_metadata
    log.close()


def test_the_cluster_goes_on_from_there(directory: str) -> None:
    virtual = VirtualWorld(immediate_workers=True)
    log, controller = open_controller(virtual, directory)
    node_id = log.node_id
    before = controller.image.brokers[node_id]
    request = registration(
        node_id,
        cluster_id=controller.image.cluster_id,
        log_dirs=list(before.directories),
        previous_broker_epoch=before.broker_epoch,
    )
    epoch = done(controller.ask(request)).broker_epoch
    assert epoch > before.broker_epoch
    heartbeat = BrokerHeartbeatRequest(broker_id=node_id, broker_epoch=epoch, current_metadata_offset=epoch)
    assert not done(controller.ask(heartbeat)).is_fenced
    # Kafka stopped cleanly, so every partition has its leader back without recovery.
    for topic in controller.image.topics.by_name.values():
        for partition in topic.partitions.values():
            assert (partition.leader, partition.isr, partition.leader_recovery_state) == (node_id, (node_id,), 0)
    creation = CreateTopicsRequest(topics=[CreatableTopic(name="added", num_partitions=1, replication_factor=1)])
    assert done(controller.ask(creation)).topics[0].error_code == ErrorCode.NONE
    image = controller.image
    log.close()
    log, controller = open_controller(virtual, directory)
    assert controller.image.topics == image.topics
    log.close()
