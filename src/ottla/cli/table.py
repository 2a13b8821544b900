"""All commands: name, module, one line of help, and the scripts of Kafka that the command replaces.

The table serves the help page, the lazy imports and `docs/cli.md`. Only the module of the command that runs is
imported.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["COMMANDS", "CommandEntry", "SECTIONS"]

SECTIONS = ("Run", "Topics and records", "Groups and transactions", "Cluster", "Files", "Measure", "More")


class CommandEntry(NamedTuple):
    section: str
    module: str
    help: str
    kafka: str


COMMANDS: dict[str, CommandEntry] = {
    "up": CommandEntry("Run", "run", "Run a local cluster in the foreground.", ""),
    "node": CommandEntry("Run", "run", "Run one node from a properties file.", "kafka-server-start"),
    "host": CommandEntry("Run", "host", "Run a node for each core of a machine, from one properties file.", ""),
    "connect": CommandEntry(
        "Run",
        "connect",
        "Run Connect workers; create, watch and change connectors.",
        "connect-standalone, connect-distributed",
    ),
    "registry": CommandEntry("Run", "registry", "Run a Schema Registry.", "schema-registry-start"),
    "console": CommandEntry("Run", "console", "Run the web console.", ""),
    "mirror": CommandEntry(
        "Run", "mirror", "Copy topics and groups to another cluster, continuously.", "connect-mirror-maker"
    ),
    "mirror-maker": CommandEntry(
        "Run", "mirror_maker", "Copy topics to another cluster by MirrorMaker 1's flags.", "kafka-mirror-maker"
    ),
    "lake": CommandEntry("Run", "lake", "Keep Iceberg and Delta tables of topics current.", ""),
    "migrate": CommandEntry(
        "Run", "migrate", "Move from Apache Kafka to Ottla: node by node, or to another cluster.", ""
    ),
    "topics": CommandEntry(
        "Topics and records", "topics", "Create, list, describe, alter and delete topics.", "kafka-topics"
    ),
    "produce": CommandEntry(
        "Topics and records", "produce", "Write lines, JSON or files to a topic.", "kafka-console-producer"
    ),
    "consume": CommandEntry("Topics and records", "consume", "Read records of topics.", "kafka-console-consumer"),
    "schemas": CommandEntry(
        "Topics and records", "schemas", "List, show, register, check and delete schemas of a registry.", ""
    ),
    "get-offsets": CommandEntry(
        "Topics and records", "get_offsets", "Show offsets of partitions, by position or by time.", "kafka-get-offsets"
    ),
    "delete-records": CommandEntry(
        "Topics and records", "delete_records", "Delete records before an offset.", "kafka-delete-records"
    ),
    "groups": CommandEntry(
        "Groups and transactions",
        "groups",
        "List, describe, reset and delete consumer groups.",
        "kafka-consumer-groups, kafka-groups",
    ),
    "streams": CommandEntry(
        "Groups and transactions", "streams", "Reset streams applications.", "kafka-streams-application-reset"
    ),
    "transactions": CommandEntry(
        "Groups and transactions", "transactions", "Show transactions, abort hanging ones.", "kafka-transactions"
    ),
    "producers": CommandEntry(
        "Groups and transactions", "producers", "Show the producers of partitions.", "kafka-transactions"
    ),
    "configs": CommandEntry("Cluster", "configs", "Show and change settings.", "kafka-configs"),
    "reassign": CommandEntry("Cluster", "reassign", "Move replicas to other brokers.", "kafka-reassign-partitions"),
    "balance": CommandEntry(
        "Cluster", "balance", "Plan and execute an even distribution; drain brokers; heal a cluster.", ""
    ),
    "elect-leaders": CommandEntry("Cluster", "elect_leaders", "Elect leaders of partitions.", "kafka-leader-election"),
    "log-dirs": CommandEntry("Cluster", "log_dirs", "Show the log directories and their replicas.", "kafka-log-dirs"),
    "verify-replicas": CommandEntry(
        "Cluster", "verify_replicas", "Compare the replicas of partitions.", "kafka-replica-verification"
    ),
    "cluster": CommandEntry("Cluster", "cluster", "Show nodes and the cluster's id; unregister.", "kafka-cluster"),
    "quorum": CommandEntry("Cluster", "quorum", "Show and change the metadata quorum.", "kafka-metadata-quorum"),
    "acls": CommandEntry("Cluster", "acls", "List, add and remove access rules.", "kafka-acls"),
    "roles": CommandEntry("Cluster", "roles", "Name sets of access rules, and bind them to principals.", ""),
    "audit": CommandEntry("Cluster", "audit", "Search the audit: authorization decisions and logins.", ""),
    "delegation-tokens": CommandEntry(
        "Cluster", "delegation_tokens", "Create, renew, expire and describe tokens.", "kafka-delegation-tokens"
    ),
    "features": CommandEntry("Cluster", "features", "Show, upgrade and downgrade features.", "kafka-features"),
    "api-versions": CommandEntry(
        "Cluster", "api_versions", "Show the request versions of each broker.", "kafka-broker-api-versions"
    ),
    "doctor": CommandEntry("Cluster", "doctor", "Find faults and risks, with the command that fixes each.", ""),
    "top": CommandEntry("Cluster", "top", "Show brokers, topics and groups live.", ""),
    "monitor": CommandEntry(
        "Cluster", "monitor", "Check a cluster end to end: loss, duplicates, order, latency, outages, lag.", ""
    ),
    "reconcile": CommandEntry(
        "Cluster", "reconcile", "Compare the stages of a pipeline: missing, doubled and late records.", ""
    ),
    "storage": CommandEntry("Files", "storage", "Format and show data directories.", "kafka-storage"),
    "dump-log": CommandEntry("Files", "dump_log", "Print segments, indexes and snapshots.", "kafka-dump-log"),
    "certificates": CommandEntry(
        "Files", "certificates", "Make certificates of clients for a cluster of 'ottla up --secure'.", ""
    ),
    "keys": CommandEntry("Files", "keys", "Create and rotate keys of end-to-end encryption; re-encrypt topics.", ""),
    "draw": CommandEntry("Files", "draw", "Draw segments, assignments and in-sync replicas.", ""),
    "perf": CommandEntry(
        "Measure",
        "perf",
        "Measure producing, consuming and end to end.",
        "kafka-producer-perf-test, kafka-consumer-perf-test, kafka-e2e-latency",
    ),
    "verifiable-producer": CommandEntry(
        "Measure", "verifiable_producer", "Produce numbers and report each as JSON.", "kafka-verifiable-producer"
    ),
    "verifiable-consumer": CommandEntry(
        "Measure", "verifiable_consumer", "Consume and report each step as JSON.", "kafka-verifiable-consumer"
    ),
    "profile": CommandEntry("More", "profile", "Name clusters, and choose the one that commands talk to.", ""),
    "completion": CommandEntry("More", "completion", "Print the shell's completion script.", ""),
}
