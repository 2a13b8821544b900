"""The settings of a cluster on one machine: `ottla up` and `ottla.testing` have the same."""

from __future__ import annotations

import pytest

from ottla.host.local_cluster import node_properties
from ottla.model.config import BrokerConfig


def config(nodes: int, **settings: str) -> BrokerConfig:
    ports = list(range(9092, 9092 + nodes))
    properties = node_properties(
        node_id=nodes,
        ports=ports,
        controller_ports=[9192],
        data="/data",
        settings={key.replace("_", "."): value for key, value in settings.items()},
    )
    return BrokerConfig(properties)


@pytest.mark.parametrize(("nodes", "replicas", "min_isr"), [(1, 1, 1), (2, 2, 1), (3, 3, 2), (5, 3, 2)])
def test_every_topic_survives_the_loss_of_a_node_where_that_is_possible(
    nodes: int, replicas: int, min_isr: int
) -> None:
    node_config = config(nodes)
    assert {
        node_config.default_replication_factor,
        node_config.offsets_topic_replication_factor,
        node_config.transaction_state_log_replication_factor,
        node_config.share_coordinator_state_topic_replication_factor,
    } == {replicas}
    assert {
        node_config.min_insync_replicas,
        node_config.transaction_state_log_min_isr,
        node_config.share_coordinator_state_topic_min_isr,
    } == {min_isr}


def test_settings_take_precedence() -> None:
    node_config = config(3, default_replication_factor="1", min_insync_replicas="1")
    assert (node_config.default_replication_factor, node_config.min_insync_replicas) == (1, 1)


def test_the_first_member_of_a_group_does_not_wait_for_more() -> None:
    assert config(1).group_initial_rebalance_delay_ms == 0
    assert config(1).group_consumer_assignment_interval_ms == 0
