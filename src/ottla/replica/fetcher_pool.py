"""All fetch loops of a broker, and which loop fetches which partition.

There are `num.replica.fetchers` loops for each leader, and a partition always belongs to the same loop of its leader. A
partition without a leader, or whose leader has no known address, waits here for metadata.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from ottla.replica.fetcher_settings import FetcherSettings
from ottla.replica.followed_partition import Cleaner, FollowedPartition
from ottla.replica.follower_fetch_loop import ReplicaFetcher
from ottla.wire.peers import Endpoint

if TYPE_CHECKING:
    from ottla.model.config import BrokerConfig
    from ottla.model.ports import World
    from ottla.replica.follower_fetch_session import PartitionKey
    from ottla.replica.partition import Partition
    from ottla.replica.throttles import ReplicationThrottles
    from ottla.replica.views import BrokerView
    from ottla.wire.peers import Peers

__all__ = ["FetcherPool"]

PURPOSE = "replica-fetch"


class FetcherPool:
    """Assigns followed partitions to fetch loops."""

    def __init__(
        self,
        *,
        node_id: int,
        config: BrokerConfig,
        world: World,
        peers: Peers,
        cleaner: Cleaner,
        broker_epoch: Callable[[], int],
        throttles: ReplicationThrottles,
    ) -> None:
        self._node_id = node_id
        self._world = world
        self.peers = peers
        self._cleaner = cleaner
        self._broker_epoch = broker_epoch
        self._throttles = throttles
        self._settings = FetcherSettings.from_broker_config(config)
        self._listener_name = config.inter_broker_listener_name
        self._fetchers_per_leader = config.num_replica_fetchers
        self._brokers: Mapping[int, BrokerView] = {}
        self._fetchers: dict[tuple[int, int], ReplicaFetcher] = {}
        self._partitions: dict[PartitionKey, Partition] = {}
        self._owners: dict[PartitionKey, ReplicaFetcher] = {}

    def __len__(self) -> int:
        return len(self._fetchers)

    @property
    def fetchers(self) -> list[ReplicaFetcher]:
        return list(self._fetchers.values())

    @property
    def failed(self) -> int:
        """The number of partitions whose fetching has stopped."""
        return sum(len(fetcher.failed) for fetcher in self._fetchers.values())

    def follow(self, partition: Partition) -> None:
        """Fetches the partition from its current leader. Nothing happens if leader and epoch are the same."""
        key = (partition.topic_id.bytes, partition.index)
        self._partitions[key] = partition
        owner = self._owners.get(key)
        if owner is not None:
            followed = owner.followed(key)
            if (
                owner.leader_id == partition.leader_id
                and followed is not None
                and followed.partition is partition
                and followed.leader_epoch == partition.leader_epoch
            ):
                return
            del self._owners[key]
            owner.unfollow(key)
        fetcher = self._fetcher_for(partition)
        if fetcher is not None:
            self._owners[key] = fetcher
            fetcher.follow(FollowedPartition(partition, self._cleaner))

    def unfollow(self, partition: Partition) -> None:
        """Stops fetching a partition that this broker now leads, that was deleted, or whose log directory failed."""
        key = (partition.topic_id.bytes, partition.index)
        if self._partitions.pop(key, None) is not None:
            owner = self._owners.pop(key, None)
            if owner is not None:
                owner.unfollow(key)

    def on_brokers(self, brokers: Mapping[int, BrokerView]) -> None:
        """Brokers were registered, changed their address, or were removed."""
        self._brokers = brokers
        for fetcher in self._fetchers.values():
            endpoint = self.endpoint_of(fetcher.leader_id)
            if endpoint is not None and endpoint != fetcher.endpoint:
                fetcher.move(endpoint)
        for key, partition in self._partitions.items():
            if key not in self._owners:
                self.follow(partition)

    def on_broker_config(self, config: BrokerConfig) -> None:
        """Assigns all partitions again if `num.replica.fetchers` has changed."""
        if config.num_replica_fetchers != self._fetchers_per_leader:
            self._fetchers_per_leader = config.num_replica_fetchers
            partitions = list(self._partitions.values())
            self.close()
            for partition in partitions:
                self.follow(partition)

    def tidy(self) -> None:
        """Closes loops without partitions; called at the end of a metadata change."""
        for place, fetcher in list(self._fetchers.items()):
            if not len(fetcher):
                del self._fetchers[place]
                fetcher.close()

    def close(self) -> None:
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        self._owners.clear()
        self._partitions.clear()

    def _fetcher_for(self, partition: Partition) -> ReplicaFetcher | None:
        leader_id = partition.leader_id
        endpoint = self.endpoint_of(leader_id)
        if endpoint is None:
            return None
        number = (int.from_bytes(partition.topic_id.bytes[:4], "big") + partition.index) % self._fetchers_per_leader
        fetcher = self._fetchers.get((leader_id, number))
        if fetcher is None:
            fetcher = self._fetchers[leader_id, number] = ReplicaFetcher(
                node_id=self._node_id,
                leader_id=leader_id,
                endpoint=endpoint,
                purpose=f"{PURPOSE}-{number}",
                world=self._world,
                peers=self.peers,
                settings=self._settings,
                broker_epoch=self._broker_epoch,
                throttles=self._throttles,
            )
        return fetcher

    def endpoint_of(self, broker_id: int) -> Endpoint | None:
        """The address of a broker on the inter-broker listener."""
        broker = self._brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoints.get(self._listener_name)
        return None if endpoint is None else Endpoint(endpoint.host, endpoint.port)
