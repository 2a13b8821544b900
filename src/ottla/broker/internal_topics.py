"""How topics are created that nobody creates explicitly: the cluster's own, and those a client asks for by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig

if TYPE_CHECKING:
    from ottla.model.config import BrokerConfig

__all__ = ["automatic_topic"]


def automatic_topic(name: str, config: BrokerConfig) -> CreatableTopic:
    """A topic with the settings its kind has, to be handed to the controller."""
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
    return _topic(name, config.num_partitions, config.default_replication_factor, {})


def _topic(name: str, partitions: int, replication_factor: int, configs: dict[str, str]) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replication_factor,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
