"""A share consumer where there are no share groups."""

from __future__ import annotations

import pytest

import ottla.testing
from ottla.client.blocking import BlockingShareConsumer
from ottla.client.errors import ClientError


def test_a_cluster_without_share_groups_is_told_in_a_sentence(shared_cluster: ottla.testing.Cluster) -> None:
    config = {"bootstrap.servers": shared_cluster.bootstrap, "group.id": "shared"}
    with BlockingShareConsumer(config) as consumer:
        consumer.subscribe(["t"])
        with pytest.raises(ClientError, match=r"The cluster has no share groups\. .*share\.version=1"):
            consumer.poll(20_000)
