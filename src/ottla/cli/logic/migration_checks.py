"""The conditions for changing a node from Apache Kafka to Ottla, or back, on the same data directory.

The file and the directories are checked on the node's host, the cluster from any host. A finding with the severity
`wrong` stops the change; other findings are only shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ottla.cli.logic.doctor_facts import ClusterFacts
from ottla.cli.logic.doctor_finding import HINT, RISK, WRONG, Finding
from ottla.client.admin.groups import ListedGroup
from ottla.client.admin.nodes import ClusterDescription, Features, Quorum
from ottla.host.files import OsFiles
from ottla.host.references import own_config
from ottla.metadata.versions import NOT_SERVED_YET, SUPPORTED_FEATURES
from ottla.model.config import BrokerConfig, ConfigError
from ottla.model.config.broker_keys import BROKER_KEYS
from ottla.model.config.keys import Standing
from ottla.model.config.own_keys import OWN_KEYS
from ottla.model.ids import Uuid
from ottla.storage.errors import DirectoryRefused
from ottla.storage.meta_properties import MetaProperties, read_meta_properties

__all__ = [
    "KAFKA",
    "OTTLA",
    "check_cluster",
    "check_directories",
    "check_file",
    "check_health",
    "check_joining",
    "check_leaving",
]

OTTLA = "ottla"
KAFKA = "kafka"

# A change waits until these checks of the doctor pass, so that stopping the node does not remove the last replica.
_HEALTH = frozenset({"brokers", "offline partitions", "under min.insync.replicas", "under-replicated", "quorum"})

# Voters fetch twice a second at least.
_VOTER_SILENCE_MS = 10_000


def check_file(properties: Mapping[str, str], *, to: str) -> list[Finding]:
    """Whether the other software runs with this properties file, and which settings lose their effect."""
    if "zookeeper.connect" in properties and "process.roles" not in properties:
        return [
            Finding(
                WRONG,
                "settings",
                "The node keeps its metadata in ZooKeeper.",
                "migrate the cluster to KRaft with Apache Kafka 3.9 first",
            )
        ]
    if to == KAFKA:
        return list(_for_kafka(properties))
    try:
        config = own_config(properties)
    except (ConfigError, ValueError) as error:
        message = error.message if isinstance(error, ConfigError) else str(error)
        return [Finding(WRONG, "settings", message, "change the setting; docs/configuration.md lists every one")]
    return list(_for_ottla(config, properties))


def _for_ottla(config: BrokerConfig, properties: Mapping[str, str]) -> Iterator[Finding]:
    for name in sorted(properties):
        key = BROKER_KEYS.get(name)
        if key is None or key.status.standing is not Standing.INERT or config.get(name) == key.default:
            continue
        yield Finding(
            HINT, "settings", f"{name} has no effect with Ottla: {key.status.reason}", "nothing is to be done"
        )


def _for_kafka(properties: Mapping[str, str]) -> Iterator[Finding]:
    for name in sorted(properties):
        if name in OWN_KEYS and name.startswith("ottla."):
            yield Finding(HINT, "settings", f"{name} has no effect with Apache Kafka.", "nothing is to be done")


def check_directories(
    properties: Mapping[str, str], *, may_be_new: bool = False
) -> tuple[list[Finding], MetaProperties | None]:
    """Checks that the log directories belong to this node. Also returns their meta.properties.

    The directories of a node that joins may be empty.
    """
    config = own_config(properties)
    known: MetaProperties | None = None
    findings: list[Finding] = []
    for directory in config.log_dirs:
        try:
            meta_properties = read_meta_properties(OsFiles(), directory)
        except (DirectoryRefused, OSError) as error:
            findings.append(Finding(WRONG, "directories", str(error), "look at the disk and at its permissions"))
            continue
        if meta_properties is None:
            if may_be_new:
                continue
            findings.append(
                Finding(
                    WRONG,
                    "directories",
                    f"{directory} has no meta.properties: no node has used it.",
                    "is log.dirs right, and is this the host of the node?",
                )
            )
        elif meta_properties.node_id is not None and meta_properties.node_id != config.node_id:
            findings.append(
                Finding(
                    WRONG,
                    "directories",
                    f"{directory} belongs to node {meta_properties.node_id}, the file to node {config.node_id}.",
                    "use the properties file with which the node runs now",
                )
            )
        else:
            known = meta_properties
    return findings, known


def check_cluster(
    features: Features, groups: Sequence[ListedGroup], *, cluster_id: str, known: MetaProperties | None, to: str
) -> list[Finding]:
    """Whether the other software can be a member of this cluster, and what it would not serve."""
    findings: list[Finding] = []
    if known is not None and known.cluster_id not in (None, cluster_id):
        findings.append(
            Finding(
                WRONG,
                "cluster",
                f"The directories belong to cluster {known.cluster_id}, the address to cluster {cluster_id}.",
                "give the address of this node's cluster with -b",
            )
        )
    if to == OTTLA:
        findings += _features(features)
        findings += _groups(groups)
    return findings


def check_joining(config: BrokerConfig, cluster: ClusterDescription, quorum: Quorum, *, is_new: bool) -> list[Finding]:
    """Whether a node with new directories can join the cluster."""
    findings = []
    replicas = (*quorum.voters, *quorum.observers)
    node_ids = {node.node_id for node in cluster.brokers} | {replica.node_id for replica in replicas}
    if is_new and config.node_id in node_ids:
        findings.append(
            Finding(WRONG, "node", f"The cluster has a node {config.node_id} already.", "choose another node.id")
        )
    if "controller" in config.process_roles and is_static(quorum):
        findings.append(
            Finding(
                WRONG,
                "quorum",
                "The voters are fixed by controller.quorum.voters, so no controller can be added.",
                "kafka-features upgrade --feature kraft.version=1, or let the node be a broker alone",
            )
        )
    elif "controller" in config.process_roles and config.quorum_voters:
        findings.append(
            Finding(
                WRONG,
                "quorum",
                "controller.quorum.voters is set, but the voters of this cluster change.",
                "set controller.quorum.bootstrap.servers instead, with the controllers of the cluster",
            )
        )
    return findings


def check_leaving(node_id: int, cluster: ClusterDescription, quorum: Quorum) -> list[Finding]:
    """Whether the cluster keeps working without a node. The plan that moves its replicas is checked separately."""
    voters = [voter.node_id for voter in quorum.voters]
    findings = []
    if node_id in voters and len(voters) == 1:
        fix = "let another controller join first"
        findings.append(Finding(WRONG, "quorum", f"Node {node_id} is the only controller.", fix))
    elif node_id in voters and is_static(quorum):
        findings.append(
            Finding(
                WRONG,
                "quorum",
                "The voters are fixed by controller.quorum.voters, so no controller can be removed.",
                "kafka-features upgrade --feature kraft.version=1",
            )
        )
    if not any(node.node_id != node_id and not node.is_fenced for node in cluster.brokers):
        findings.append(
            Finding(WRONG, "brokers", "There is no other broker that runs.", "let another broker join first")
        )
    return findings


def is_static(quorum: Quorum) -> bool:
    """True if the voters are configured statically: then they have no directory ids."""
    return any(voter.directory_id == Uuid.ZERO for voter in quorum.voters)


def _features(features: Features) -> Iterator[Finding]:
    for feature in features.features:
        if not feature.finalized:
            continue
        supported = SUPPORTED_FEATURES.get(feature.name)
        if supported is None or feature.finalized > supported[1]:
            yield Finding(
                WRONG,
                "features",
                f"The cluster uses {feature.name}={feature.finalized}, which Ottla does not have.",
                f"kafka-features downgrade --feature {feature.name}={0 if supported is None else supported[1]}",
            )
        elif feature.name in NOT_SERVED_YET:
            yield Finding(
                RISK,
                "features",
                f"The cluster has {feature.name}={feature.finalized}. Ottla does not serve such groups yet.",
                "nothing is to be done if no client uses them",
            )


def _groups(groups: Sequence[ListedGroup]) -> Iterator[Finding]:
    for kind in ("share", "streams"):
        names = [group.group_id for group in groups if group.type.lower() == kind]
        if names:
            yield Finding(
                WRONG,
                "groups",
                f"There are {kind} groups, which Ottla does not serve yet: {', '.join(names[:5])}.",
                "move their clients to consumer groups, and delete the groups",
            )


def check_health(findings: Sequence[Finding], facts: ClusterFacts, *, node_id: int, now_ms: float) -> list[Finding]:
    """The doctor's findings that have to be fixed first. The node itself may already be stopped.

    `now_ms` is the time by our clock.
    """
    serious = [finding for finding in findings if finding.severity == WRONG and finding.check in _HEALTH]
    silent = _silent_voters(facts, now_ms)
    # The doctor's check compares the lag in records, which is still small if a controller has just stopped.
    serious += [
        Finding(WRONG, "quorum", f"Controller {voter} does not answer the quorum.", f"start controller {voter}")
        for voter in silent
        if voter != node_id
    ]
    if not _is_away(facts, node_id) and node_id not in silent:
        return serious
    # The node is stopped by an interrupted change, so findings that its absence causes are ignored.
    return [finding for finding in serious if finding.check in ("offline partitions", "under min.insync.replicas")]


def _silent_voters(facts: ClusterFacts, now_ms: float) -> list[int]:
    if facts.quorum is None:
        return []
    latest_ms = now_ms + facts.clock_skew_ms - _VOTER_SILENCE_MS
    return [
        voter.node_id
        for voter in facts.quorum.voters
        if voter.node_id != facts.quorum.leader_id and voter.last_fetch_timestamp < latest_ms
    ]


def _is_away(facts: ClusterFacts, node_id: int) -> bool:
    return node_id in facts.silent or any(node.node_id == node_id and node.is_fenced for node in facts.brokers)
