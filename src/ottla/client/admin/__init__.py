"""`AdminClient`: everything an administrator asks of a cluster, by area. See README.md."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Self

from ottla.client.admin.acls import Acls
from ottla.client.admin.configs import Configs
from ottla.client.admin.credentials import Credentials
from ottla.client.admin.groups import Groups
from ottla.client.admin.nodes import Nodes
from ottla.client.admin.offsets import Offsets
from ottla.client.admin.partitions import Partitions
from ottla.client.admin.quotas import Quotas
from ottla.client.admin.share_groups import ShareGroups
from ottla.client.admin.streams_groups import StreamsGroups
from ottla.client.admin.tokens import DelegationTokens
from ottla.client.admin.topics import Topics
from ottla.client.admin.transactions import Transactions
from ottla.client.cluster import Cluster, calls_within
from ottla.client.settings import ClientSettings

__all__ = ["AdminClient"]


class AdminClient:
    """An async context manager with an attribute for each area. A call sends few requests to each broker.

    It takes typed settings, or a dictionary with Kafka's configuration keys.
    """

    def __init__(self, settings: ClientSettings | Cluster | Mapping[str, Any]) -> None:
        if isinstance(settings, Mapping):
            # Imported with the first dictionary: settings in types need no reader.
            from ottla.client.config.admin import read_admin

            settings = read_admin(settings)
        self._owned = isinstance(settings, ClientSettings)
        self.connections = Cluster(settings) if isinstance(settings, ClientSettings) else settings
        self.topics = Topics(self.connections)
        self.configs = Configs(self.connections)
        self.groups = Groups(self.connections)
        self.share_groups = ShareGroups(self.connections)
        self.streams_groups = StreamsGroups(self.connections)
        self.offsets = Offsets(self.connections)
        self.partitions = Partitions(self.connections)
        self.transactions = Transactions(self.connections)
        self.quotas = Quotas(self.connections)
        self.credentials = Credentials(self.connections)
        self.acls = Acls(self.connections)
        self.tokens = DelegationTokens(self.connections)
        self.cluster = Nodes(self.connections)

    @staticmethod
    def within(timeout_ms: int) -> AbstractContextManager[None]:
        """`with admin.within(5_000): ...`: the time-out of the calls in the block."""
        return calls_within(timeout_ms)

    async def close(self, timeout_ms: int | None = None) -> None:
        """Refuses new calls and waits for those in progress, without limit or up to a time-out; then they fail."""
        if self._owned:
            await self.connections.drain(timeout_ms)
            await self.connections.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, *_: object) -> None:
        # After an error there is no wait for other calls.
        await self.close(None if kind is None else 0)
