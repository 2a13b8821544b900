"""Topics that a broker creates automatically: the cluster's internal topics, and unknown topics that a client names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig

if TYPE_CHECKING:
    from ottla.model.config import BrokerConfig

__all__ = ["AUDIT_TOPIC", "automatic_topic"]

# The audit trail of all nodes.
AUDIT_TOPIC = "__audit"

# In CreateTopics: the controller's default for the number of partitions or replicas.
CONTROLLERS_DEFAULT = -1


def automatic_topic(name: str, config: BrokerConfig) -> CreatableTopic:
    """The entry of the broker's CreateTopics request for this topic."""
    if name == "__consumer_offsets":
        return _topic(
            name,
            config.offsets_topic_num_partitions,
            config.offsets_topic_replication_factor,
            {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            },
        )
    if name == "__transaction_state":
        return _topic(
            name,
            config.transaction_state_log_num_partitions,
            config.transaction_state_log_replication_factor,
            {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
                "unclean.leader.election.enable": "false",
            },
        )
    if name == "__share_group_state":
        return _topic(
            name,
            config.share_coordinator_state_topic_num_partitions,
            config.share_coordinator_state_topic_replication_factor,
            {
                "cleanup.policy": "delete",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config.share_coordinator_state_topic_min_isr),
                "retention.ms": "-1",
                "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
            },
        )
    if name == AUDIT_TOPIC:
        return _topic(name, CONTROLLERS_DEFAULT, CONTROLLERS_DEFAULT, {"cleanup.policy": "delete"})
    # As in Apache Kafka, a broker that does not set these keys itself leaves them to the controller's configuration.
    partitions = config.num_partitions if "num.partitions" in config.static else CONTROLLERS_DEFAULT
    factor = config.default_replication_factor if "default.replication.factor" in config.static else CONTROLLERS_DEFAULT
    return _topic(name, partitions, factor, {})


def _topic(name: str, partitions: int, replication_factor: int, configs: dict[str, str]) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
