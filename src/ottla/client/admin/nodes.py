"""The cluster: nodes, their API versions, features, the quorum."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

from ottla.client.cluster import CONTROLLERS, Cluster
from ottla.client.errors import ClientError, check
from ottla.model.ids import Uuid
from ottla.wire.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse, Listener
from ottla.wire.messages.api_versions import ApiVersionsResponse
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ReplicaState,
    RequestPartitionData,
    RequestTopicData,
)
from ottla.wire.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from ottla.wire.peers import Endpoint

__all__ = [
    "ClusterDescription",
    "ClusterNode",
    "FeatureRange",
    "Features",
    "Nodes",
    "Quorum",
    "QuorumReplica",
    "UpgradeType",
]

BROKERS = 1
METADATA_TOPIC = "__cluster_metadata"


class UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class ClusterNode(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


class ClusterDescription(NamedTuple):
    cluster_id: str
    controller_id: int
    brokers: tuple[ClusterNode, ...]


class FeatureRange(NamedTuple):
    name: str
    supported_min: int
    supported_max: int
    # None if the feature is not enabled.
    finalized: int | None


class Features(NamedTuple):
    epoch: int
    features: tuple[FeatureRange, ...]


class QuorumReplica(NamedTuple):
    node_id: int
    directory_id: Uuid
    log_end_offset: int
    last_fetch_timestamp: int
    last_caught_up_timestamp: int


class Quorum(NamedTuple):
    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    # Controller id -> its addresses, if the cluster reports them.
    endpoints: Mapping[int, tuple[str, ...]]


class Nodes:
    """`admin.cluster`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def describe(self, *, fenced: bool = False) -> ClusterDescription:
        """The brokers; a client of controllers gets the controllers."""
        kind = CONTROLLERS if self._cluster.settings.are_controllers else BROKERS
        response: DescribeClusterResponse = await self._cluster.ask_any(
            DescribeClusterRequest(include_fenced_brokers=fenced, endpoint_type=kind)
        )
        check(response.error_code, response.error_message)
        return ClusterDescription(
            response.cluster_id,
            response.controller_id,
            tuple(
                ClusterNode(broker.broker_id, broker.host, broker.port, broker.rack, broker.is_fenced)
                for broker in sorted(response.brokers, key=lambda broker: broker.broker_id)
            ),
        )

    async def api_versions(self) -> dict[ClusterNode, ApiVersionsResponse | ClientError]:
        """The API versions of every node, from the handshake of its connection."""

        async def ask(node: ClusterNode) -> ApiVersionsResponse | ClientError:
            try:
                connection = await self._cluster.node_connection(node.node_id)
            except ClientError as error:
                return error
            assert connection.api_versions is not None
            return connection.api_versions

        nodes = (await self.describe()).brokers
        return dict(zip(nodes, await asyncio.gather(*[ask(node) for node in nodes]), strict=True))

    async def features(self) -> Features:
        answer = (await self._cluster.any_connection()).api_versions
        assert answer is not None
        finalized = {feature.name: feature.max_version_level for feature in answer.finalized_features}
        ranges = tuple(
            FeatureRange(feature.name, feature.min_version, feature.max_version, finalized.get(feature.name))
            for feature in sorted(answer.supported_features, key=lambda feature: feature.name)
        )
        return Features(answer.finalized_features_epoch, ranges)

    async def update_features(
        self, levels: Mapping[str, int], *, kind: UpgradeType = UpgradeType.UPGRADE, validate_only: bool = False
    ) -> None:
        """Updates all features or none. Level 0 disables a feature."""
        request = UpdateFeaturesRequest(
            timeout_ms=self._cluster.settings.request_timeout_ms,
            feature_updates=[
                FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
                for name, level in levels.items()
            ],
            validate_only=validate_only,
        )
        response: UpdateFeaturesResponse = await self._cluster.ask_controller(request)
        check(response.error_code, response.error_message)
        for result in response.results:
            check(result.error_code, result.error_message)

    async def quorum(self) -> Quorum:
        request = DescribeQuorumRequest(
            topics=[RequestTopicData(topic_name=METADATA_TOPIC, partitions=[RequestPartitionData(partition_index=0)])]
        )
        response: DescribeQuorumResponse = await self._cluster.ask_controller(request)
        check(response.error_code, response.error_message)
        partition = response.topics[0].partitions[0]
        check(partition.error_code, partition.error_message)
        return Quorum(
            partition.leader_id,
            partition.leader_epoch,
            partition.high_watermark,
            tuple(_replica(voter) for voter in partition.current_voters),
            tuple(_replica(observer) for observer in partition.observers),
            {
                node.node_id: tuple(f"{listener.name}://{listener.host}:{listener.port}" for listener in node.listeners)
                for node in response.nodes
            },
        )

    async def add_controller(self, node_id: int, directory_id: Uuid, listeners: Mapping[str, Endpoint]) -> None:
        """Makes an observer of the quorum a voter; returns when the change is committed."""
        request = AddRaftVoterRequest(
            cluster_id=(await self.describe()).cluster_id,
            timeout_ms=self._cluster.settings.request_timeout_ms,
            voter_id=node_id,
            voter_directory_id=directory_id,
            listeners=[
                Listener(name=name, host=endpoint.host, port=endpoint.port) for name, endpoint in listeners.items()
            ],
        )
        response: AddRaftVoterResponse = await self._cluster.ask_controller(request)
        check(response.error_code, response.error_message)

    async def remove_controller(self, node_id: int, directory_id: Uuid) -> None:
        request = RemoveRaftVoterRequest(
            cluster_id=(await self.describe()).cluster_id, voter_id=node_id, voter_directory_id=directory_id
        )
        response: RemoveRaftVoterResponse = await self._cluster.ask_controller(request)
        check(response.error_code, response.error_message)

    async def unregister(self, broker_id: int) -> None:
        response: UnregisterBrokerResponse = await self._cluster.ask_controller(
            UnregisterBrokerRequest(broker_id=broker_id)
        )
        check(response.error_code, response.error_message)


def _replica(state: ReplicaState) -> QuorumReplica:
    return QuorumReplica(
        state.replica_id,
        state.replica_directory_id,
        state.log_end_offset,
        state.last_fetch_timestamp,
        state.last_caught_up_timestamp,
    )
