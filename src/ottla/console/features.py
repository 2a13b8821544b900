"""The features of a cluster beyond topics and groups. Pages exist only for features that the cluster has."""

from __future__ import annotations

from ottla.client.admin import AdminClient
from ottla.client.errors import ClientError
from ottla.console.cluster_state import ClusterState
from ottla.mirror.heartbeat_times import is_heartbeats_topic
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.api import ApiKey

__all__ = ["AUDIT_TOPIC", "features_of", "heartbeat_topics"]

AUDIT_TOPIC = "__audit"


def heartbeat_topics(state: ClusterState) -> list[str]:
    """The topic of heartbeats of mirroring flows, and its copies from other clusters."""
    return [row.name for row in state.rows if is_heartbeats_topic(row.name)]


async def features_of(admin: AdminClient, state: ClusterState | None) -> dict[str, bool | None]:
    """The features that depend on the cluster. None for a feature that is unknown without the state."""
    answer = (await admin.connections.any_connection()).api_versions
    has_acls = await _has_acls(admin)
    keys = set() if answer is None else {api.api_key for api in answer.api_keys}
    return {
        "audit": await _has_topic(admin, AUDIT_TOPIC) if state is None else AUDIT_TOPIC in state.topics,
        "acls": has_acls,
        "roles": has_acls,
        "quorum": ApiKey.DESCRIBE_QUORUM in keys,
        "users": ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS in keys,
        "quotas": ApiKey.DESCRIBE_CLIENT_QUOTAS in keys,
        "transactions": ApiKey.LIST_TRANSACTIONS in keys,
        "share_groups": ApiKey.SHARE_GROUP_DESCRIBE in keys,
        "streams_groups": ApiKey.STREAMS_GROUP_DESCRIBE in keys,
        "mirrors": None if state is None else bool(heartbeat_topics(state)),
    }


async def _has_topic(admin: AdminClient, name: str) -> bool:
    try:
        await admin.connections.fresh_topic(name)
    except KafkaError:
        return False
    return True


async def _has_acls(admin: AdminClient) -> bool:
    try:
        await admin.acls.describe()
    except KafkaError as error:
        return error.code != ErrorCode.SECURITY_DISABLED
    except ClientError:
        return False
    return True
