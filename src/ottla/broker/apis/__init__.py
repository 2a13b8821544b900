"""The APIs, a module (or package) per API. Two tables list the served and advertised APIs: `HANDLERS` for the listeners
of a broker, with `TELEMETRY_HANDLERS` if it receives metrics of clients, and `CONTROLLER_HANDLERS` for the listeners of
a controller (`controller.listener.names`).

A module exports one value, `API` (`ottla.broker.apis.api`), which is the whole interface to the dispatcher. APIs that
are only refused are rows of one table, `switched_off`.

A module is imported with the first request for it, so that a node does not pay for APIs that its clients do not use.

The tables also say which requests may be started behind an unanswered request of the same connection. Kafka handles one
request of a connection at a time, so a client never sees an answer that is older than one it got before on the same
connection. A waiting Fetch that answers high watermark 1 must not be followed by a ListOffsets that answers 0 because
it was evaluated while the Fetch waited. The rule: a request is evaluated when every earlier request of its connection
has been answered. `starts_behind` lists the exceptions. For these, evaluating the second request early gives the same
answer as evaluating it late, or an answer that Kafka's order could give, too. The relation is an equivalence (a test
checks it), which allows `ottla.wire.connection.server` to look at the newest unanswered request alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from ottla.broker.apis import switched_off

if TYPE_CHECKING:
    from ottla.broker.apis.api import Api

__all__ = [
    "CONTROLLER_HANDLERS",
    "FORWARDABLE",
    "HANDLERS",
    "NO_API",
    "TELEMETRY_HANDLERS",
    "HandlerSpec",
    "broker_handlers",
    "load",
]

NO_API: frozenset[int] = frozenset()


class HandlerSpec(NamedTuple):
    """The module of an API, and the versions that are advertised for it."""

    module: str
    min_version: int
    max_version: int
    # The API keys whose unanswered requests do not keep a request of this API from being started.
    starts_behind: frozenset[int] = NO_API


def load(api_key: int, spec: HandlerSpec) -> Api:
    """The value of an API. Its module is imported with the first call."""
    module = import_module(f"ottla.broker.apis.{spec.module}")
    api: Api = module.ROWS[api_key].api() if module is switched_off else module.API
    return api


def _refused(*api_keys: int) -> dict[int, HandlerSpec]:
    rows = [switched_off.ROWS[api_key] for api_key in api_keys]
    return {row.api_key: HandlerSpec("switched_off", row.min_version, row.max_version) for row in rows}


# By the number of the API key: this table is needed before any message module is.
HANDLERS: dict[int, HandlerSpec] = {
    # A produce request is appended when it is started, and its answer names its own offsets. Those follow from the
    # order of appends, which is the order of requests. What waits is only the acknowledgement of the replicas, and a
    # later append cannot be acknowledged before an earlier one of the same partition.
    0: HandlerSpec("produce", 0, 13, starts_behind=frozenset({0})),
    1: HandlerSpec("fetch", 4, 18),
    2: HandlerSpec("list_offsets", 1, 11),
    3: HandlerSpec("metadata", 0, 13),
    # A commit is decided when it is started, against the state that every earlier commit has changed already. Its
    # answer shows no offsets. What waits is the replication of the coordinator's log, which acknowledges in log order.
    8: HandlerSpec("offset_commit", 2, 10, starts_behind=frozenset({8})),
    9: HandlerSpec("offset_fetch", 1, 10),
    10: HandlerSpec("find_coordinator", 0, 6),
    11: HandlerSpec("join_group", 0, 9),
    12: HandlerSpec("heartbeat", 0, 4),
    13: HandlerSpec("leave_group", 0, 5),
    14: HandlerSpec("sync_group", 0, 5),
    15: HandlerSpec("describe_groups", 0, 6),
    16: HandlerSpec("list_groups", 0, 5),
    18: HandlerSpec("api_versions", 0, 5),
    19: HandlerSpec("create_topics", 2, 7),
    20: HandlerSpec("delete_topics", 1, 6),
    21: HandlerSpec("delete_records", 0, 2),
    22: HandlerSpec("init_producer_id", 0, 5),
    23: HandlerSpec("offset_for_leader_epoch", 2, 4),
    24: HandlerSpec("add_partitions_to_txn", 0, 5),
    25: HandlerSpec("add_offsets_to_txn", 0, 4),
    26: HandlerSpec("end_txn", 0, 5),
    # A transaction coordinator sends markers to the leader of a partition, which appends them like a produce request.
    27: HandlerSpec("write_txn_markers", 1, 2, starts_behind=frozenset({27})),
    28: HandlerSpec("txn_offset_commit", 0, 6),
    29: HandlerSpec("describe_acls", 1, 3),
    30: HandlerSpec("create_acls", 1, 3),
    31: HandlerSpec("delete_acls", 1, 3),
    32: HandlerSpec("describe_configs", 1, 4),
    33: HandlerSpec("alter_configs", 0, 2),
    34: HandlerSpec("alter_replica_log_dirs", 1, 2),
    35: HandlerSpec("describe_log_dirs", 1, 5),
    37: HandlerSpec("create_partitions", 0, 3),
    38: HandlerSpec("create_delegation_token", 1, 3),
    39: HandlerSpec("renew_delegation_token", 1, 2),
    40: HandlerSpec("expire_delegation_token", 1, 2),
    41: HandlerSpec("describe_delegation_token", 1, 3),
    42: HandlerSpec("delete_groups", 0, 3),
    43: HandlerSpec("elect_leaders", 0, 2),
    44: HandlerSpec("incremental_alter_configs", 0, 1),
    45: HandlerSpec("alter_partition_reassignments", 0, 1),
    46: HandlerSpec("list_partition_reassignments", 0, 0),
    47: HandlerSpec("offset_delete", 0, 0),
    48: HandlerSpec("describe_client_quotas", 0, 1),
    49: HandlerSpec("alter_client_quotas", 0, 1),
    50: HandlerSpec("describe_user_scram_credentials", 0, 0),
    51: HandlerSpec("alter_user_scram_credentials", 0, 0),
    55: HandlerSpec("describe_quorum", 0, 2),
    57: HandlerSpec("update_features", 0, 2),
    60: HandlerSpec("describe_cluster", 0, 2),
    61: HandlerSpec("describe_producers", 0, 0),
    64: HandlerSpec("unregister_broker", 0, 0),
    65: HandlerSpec("describe_transactions", 0, 0),
    66: HandlerSpec("list_transactions", 0, 2),
    68: HandlerSpec("consumer_group_heartbeat", 0, 1),
    69: HandlerSpec("consumer_group_describe", 0, 1),
    74: HandlerSpec("list_config_resources", 0, 1),
    75: HandlerSpec("describe_topic_partitions", 0, 0),
    80: HandlerSpec("add_raft_voter", 0, 1),
    81: HandlerSpec("remove_raft_voter", 0, 0),
    **_refused(*switched_off.ROWS),
}

# Announced by a broker that receives metrics of clients (`ottla.client.metrics.enable`).
TELEMETRY_HANDLERS: dict[int, HandlerSpec] = {
    71: HandlerSpec("get_telemetry_subscriptions", 0, 0),
    72: HandlerSpec("push_telemetry", 0, 0),
}


def broker_handlers(*, receives_metrics: bool) -> dict[int, HandlerSpec]:
    """The APIs that the listeners of a broker serve and advertise."""
    return {**HANDLERS, **TELEMETRY_HANDLERS} if receives_metrics else HANDLERS


# Requests from brokers to the controller, and requests that administrators may send to it directly (KIP-919).
CONTROLLER_HANDLERS: dict[int, HandlerSpec] = {
    1: HandlerSpec("fetch_metadata_log", 4, 18),
    18: HandlerSpec("api_versions", 0, 5),
    19: HandlerSpec("create_topics", 2, 7),
    20: HandlerSpec("delete_topics", 1, 6),
    29: HandlerSpec("describe_acls", 1, 3),
    30: HandlerSpec("create_acls", 1, 3),
    31: HandlerSpec("delete_acls", 1, 3),
    32: HandlerSpec("describe_configs", 1, 4),
    33: HandlerSpec("alter_configs", 0, 2),
    37: HandlerSpec("create_partitions", 0, 3),
    38: HandlerSpec("create_delegation_token", 1, 3),
    39: HandlerSpec("renew_delegation_token", 1, 2),
    40: HandlerSpec("expire_delegation_token", 1, 2),
    41: HandlerSpec("describe_delegation_token", 1, 3),
    43: HandlerSpec("elect_leaders", 0, 2),
    44: HandlerSpec("incremental_alter_configs", 0, 1),
    45: HandlerSpec("alter_partition_reassignments", 0, 1),
    46: HandlerSpec("list_partition_reassignments", 0, 0),
    49: HandlerSpec("alter_client_quotas", 0, 1),
    50: HandlerSpec("describe_user_scram_credentials", 0, 0),
    51: HandlerSpec("alter_user_scram_credentials", 0, 0),
    52: HandlerSpec("vote", 0, 2),
    53: HandlerSpec("begin_quorum_epoch", 0, 1),
    54: HandlerSpec("end_quorum_epoch", 0, 1),
    55: HandlerSpec("describe_quorum", 0, 2),
    56: HandlerSpec("alter_partition", 2, 3),
    57: HandlerSpec("update_features", 0, 2),
    # A broker forwards the requests of all its clients on one connection. The broker keeps the order of one client's
    # requests: it forwards a request only when the earlier ones of that client's connection have been answered. The
    # controller decides in the order of arrival, and every decision sees the ones before it.
    58: HandlerSpec("envelope", 0, 0, starts_behind=frozenset({58})),
    59: HandlerSpec("fetch_snapshot", 0, 1),
    60: HandlerSpec("describe_cluster", 0, 2),
    62: HandlerSpec("broker_registration", 0, 4),
    63: HandlerSpec("broker_heartbeat", 0, 2),
    64: HandlerSpec("unregister_broker", 0, 0),
    67: HandlerSpec("allocate_producer_ids", 0, 0),
    70: HandlerSpec("controller_registration", 0, 0),
    73: HandlerSpec("assign_replicas_to_dirs", 0, 0),
    80: HandlerSpec("add_raft_voter", 0, 1),
    81: HandlerSpec("remove_raft_voter", 0, 0),
    82: HandlerSpec("update_raft_voter", 0, 0),
    **_refused(17, 36, 94),
}

# Requests that a broker may forward in an Envelope, in the name of a client (KIP-590).
FORWARDABLE = frozenset((19, 20, 30, 31, 33, 37, 38, 39, 40, 43, 44, 45, 46, 49, 51, 55, 57, 64, 80, 81, 94))
