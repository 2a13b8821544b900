"""The doctor's checks: a table of small functions from facts to findings, each with the command that fixes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from shlex import quote

from ottla.balance.shortage import named_brokers
from ottla.cli.logic.doctor_facts import ClusterFacts
from ottla.cli.logic.doctor_finding import HINT, RISK, WRONG, Finding
from ottla.cli.logic.doctor_services import (
    certificates_that_end,
    has_moved,
    logins_that_fail,
    mirrors_behind,
    mirrors_too_slow,
    schemas_that_break_consumers,
)
from ottla.cli.logic.local_files import mount_options
from ottla.cli.output import duration, size
from ottla.client.admin.partitions import LogDirectory
from ottla.client.admin.topics import DescribedPartition, DescribedTopic
from ottla.model.ids import TopicPartition

__all__ = ["CLUSTER_CHECKS", "examine"]

CLOCK_SKEW_MS_MAX = 1_000
DISK_FREE_SHARE_MIN = 0.10
# An uneven spread of leaders is reported beyond this factor.
LEADER_SKEW_MAX = 1.5
QUORUM_LAG_MAX = 1_000
# Up to this number, partitions are named one by one.
NAMED_MAX = 5


Check = Callable[[ClusterFacts], Iterator[Finding]]


def examine(facts: ClusterFacts) -> list[Finding]:
    """Everything that is wrong, then what is risky, then hints."""
    findings = [finding for check in CLUSTER_CHECKS for finding in check(facts)]
    order = {WRONG: 0, RISK: 1, HINT: 2}
    return sorted(findings, key=lambda finding: order[finding.severity])


def fenced_brokers(facts: ClusterFacts) -> Iterator[Finding]:
    for node in facts.brokers:
        if node.is_fenced:
            yield Finding(
                WRONG,
                "brokers",
                f"Broker {node.node_id} ({node.host}:{node.port}) is registered but fenced.",
                f"start it again, or, if it is gone for good: ottla cluster unregister --id {node.node_id}",
            )


def silent_brokers(facts: ClusterFacts) -> Iterator[Finding]:
    for node in facts.brokers:
        if node.node_id in facts.silent:
            yield Finding(
                WRONG,
                "brokers",
                f"Broker {node.node_id} ({node.host}:{node.port}) does not answer.",
                "look at its process and its network; if it hangs, restart it",
            )


def partitions_without_leader(facts: ClusterFacts) -> Iterator[Finding]:
    lost: dict[tuple[str, int], list[int]] = {}
    for topic, partition in _partitions(facts):
        if partition.leader < 0:
            wanted = [*(partition.eligible_leader_replicas or ()), *partition.replicas]
            lost.setdefault((topic.name, wanted[0]), []).append(partition.partition)
    for (name, broker), partitions in lost.items():
        is_few = len(partitions) <= NAMED_MAX
        selector = " ".join(f"{name}:{number}" for number in partitions) if is_few else "--all-topic-partitions"
        yield Finding(
            WRONG,
            "offline partitions",
            f"{_named(name, partitions)} no leader; clients can neither read nor write.",
            f"start broker {broker}; or, losing records: ottla elect-leaders --election-type unclean {selector}",
        )


def partitions_under_min_isr(facts: ClusterFacts) -> Iterator[Finding]:
    short: dict[tuple[str, int, int], list[int]] = {}
    for topic, partition in _partitions(facts):
        least = _min_isr(facts, topic)
        if partition.leader >= 0 and len(partition.isr) < least:
            missing = [broker for broker in partition.replicas if broker not in partition.isr]
            short.setdefault((topic.name, least, missing[0] if missing else -1), []).append(partition.partition)
    for (name, least, broker), partitions in short.items():
        help_whom = f"start or help broker {broker}" if broker >= 0 else f"give {name} more replicas"
        yield Finding(
            WRONG,
            "under min.insync.replicas",
            f"{_named(name, partitions)} fewer replicas in sync than the {least} that are needed; writes with acks=all "
            "fail.",
            f"{help_whom}; see: ottla topics describe --under-min-isr-partitions",
        )


def partitions_under_replicated(facts: ClusterFacts) -> Iterator[Finding]:
    behind: Counter[int] = Counter()
    for topic, partition in _partitions(facts):
        # A replica that a reassignment adds is not expected to be in sync yet.
        move = facts.moving.get(TopicPartition(topic.name, partition.partition))
        replicas = partition.replicas if move is None else move.settled
        if (
            partition.leader >= 0
            and len(partition.isr) < len(replicas)
            and len(partition.isr) >= _min_isr(facts, topic)
        ):
            behind.update(broker for broker in replicas if broker not in partition.isr)
    for broker, count in sorted(behind.items()):
        yield Finding(
            WRONG,
            "under-replicated",
            f"Broker {broker} is behind in {count} partitions.",
            "start the broker, or look at its disk and load; see: ottla topics describe --under-replicated-partitions",
        )


def replication_too_low(facts: ClusterFacts) -> Iterator[Finding]:
    live = sum(not node.is_fenced for node in facts.brokers)
    if live < 2:
        return
    for topic in facts.topics:
        if not topic.partitions:
            continue
        factor = min(len(partition.replicas) for partition in topic.partitions)
        least = _min_isr(facts, topic)
        if factor == 1:
            yield Finding(
                RISK,
                "replication",
                f"{topic.name} has one replica: what its broker loses is lost.",
                "raise it: ottla reassign execute -f plan.json, with more replicas of each partition",
            )
        elif factor < least + 1:
            yield Finding(
                RISK,
                "replication",
                f"{topic.name} has {factor} replicas and needs {least} in sync: one broker down stops writing.",
                f"ottla configs alter --topic {topic.name} --add-config min.insync.replicas={factor - 1}",
            )


def leaders_skewed(facts: ClusterFacts) -> Iterator[Finding]:
    live = [node.node_id for node in facts.brokers if not node.is_fenced]
    leaders = Counter(partition.leader for _, partition in _partitions(facts) if partition.leader >= 0)
    elsewhere = sum(
        1
        for _, partition in _partitions(facts)
        if partition.leader >= 0 and partition.replicas[0] != partition.leader and partition.replicas[0] in live
    )
    total = sum(leaders.values())
    if len(live) < 2 or total < 2 * len(live):
        return
    most = max(live, key=lambda broker: leaders[broker])
    if leaders[most] > LEADER_SKEW_MAX * total / len(live) and elsewhere:
        yield Finding(
            RISK,
            "leaders",
            f"Broker {most} leads {leaders[most]} of {total} partitions.",
            "ottla elect-leaders --all-topic-partitions",
        )


def offline_directories(facts: ClusterFacts) -> Iterator[Finding]:
    for broker, directories in facts.directories.items():
        for directory in directories:
            if directory.error is not None:
                yield Finding(
                    WRONG,
                    "disks",
                    f"Broker {broker} cannot use {directory.path} ({directory.error.code.name}).",
                    "repair the disk and restart the broker; see: ottla log-dirs",
                )


def damaged_segments(facts: ClusterFacts) -> Iterator[Finding]:
    replicas = {(topic.name, partition.partition): len(partition.replicas) for topic, partition in _partitions(facts)}
    for broker, metrics in sorted(facts.metrics.items()):
        for topic_name, partition_id, base_offset in metrics.damaged:
            is_single = replicas.get((topic_name, partition_id), 1) == 1
            yield Finding(
                WRONG,
                "damaged segments",
                f"Broker {broker} has a damaged segment of {topic_name}-{partition_id} at offset {base_offset}. "
                "Fetches of damaged records fail.",
                f"stop broker {broker}, look at the files: ottla doctor --log-dir DIR, and restore them from a backup"
                if is_single
                else f"broker {broker} repairs it from another in-sync replica; if it stays, look at the broker's log",
            )


def disks_nearly_full(facts: ClusterFacts) -> Iterator[Finding]:
    for broker, directories in facts.directories.items():
        for directory in directories:
            if directory.total_bytes > 0 and 0 <= directory.usable_bytes < DISK_FREE_SHARE_MIN * directory.total_bytes:
                usable, total = size(directory.usable_bytes), size(directory.total_bytes)
                space = f"{directory.path} of broker {broker} has {usable} left of {total}"
                name, partition_bytes = _largest_topic(facts, directory)
                if name is None:
                    yield Finding(
                        WRONG, "disks", f"{space}.", "add a disk, or move replicas away: ottla reassign generate"
                    )
                    continue
                fix = f"ottla configs alter --topic {name} --add-config retention.bytes={partition_bytes // 2}"
                yield Finding(
                    WRONG,
                    "disks",
                    f"{space}; {name} is the largest topic in it, with partitions of up to {size(partition_bytes)}.",
                    f"add a disk or a broker, or keep only half of that topic: {fix}",
                )


def _named(topic: str, partitions: list[int]) -> str:
    """The subject of a sentence about partitions of a topic, with its verb."""
    if len(partitions) == 1:
        return f"{topic}-{partitions[0]} has"
    if len(partitions) <= NAMED_MAX:
        return f"{', '.join(f'{topic}-{number}' for number in partitions)} have"
    return f"{len(partitions)} partitions of {topic} ({topic}-{partitions[0]} is the first) have"


def _largest_topic(facts: ClusterFacts, directory: LogDirectory) -> tuple[str | None, int]:
    """The largest topic in this directory that deletes old records, and the size of its largest partition there."""
    sizes, partitions = Counter[str](), Counter[str]()
    for (topic, _), replica in directory.replicas.items():
        policy = facts.topic_settings.get(topic, {}).get("cleanup.policy", "delete")
        if not topic.startswith("__") and "delete" in policy:
            sizes[topic] += replica.size_bytes
            partitions[topic] = max(partitions[topic], replica.size_bytes)
    name = sizes.most_common(1)[0][0] if sizes else None
    return name, 0 if name is None else partitions[name]


def data_in_temporary_place(facts: ClusterFacts) -> Iterator[Finding]:
    for place in ("/tmp", "/var/tmp", "/dev/shm"):
        paths = {
            broker: directory.path
            for broker, directories in facts.directories.items()
            for directory in directories
            if directory.path == place or directory.path.startswith(f"{place}/")
        }
        if paths:
            brokers = f"{named_brokers(sorted(paths)).capitalize()} {'keeps its' if len(paths) == 1 else 'keep their'}"
            location = next(iter(paths.values())) if len(paths) == 1 else place
            yield Finding(
                RISK,
                "directories",
                f"{brokers} data in {location}, which a restart may empty.",
                "set log.dirs to a persistent directory, and move the data there while the broker is down",
            )
    for directories in facts.directories.values():
        for directory in directories:
            options = mount_options(directory.path)
            if options and "noatime" not in options and "relatime" not in options:
                yield Finding(
                    HINT,
                    "directories",
                    f"{directory.path} is mounted without noatime: every read writes.",
                    f"mount -o remount,noatime {directory.path}",
                )


def open_listeners(facts: ClusterFacts) -> Iterator[Finding]:
    for broker, settings in facts.broker_settings.items():
        for word in settings.get("listeners", "").split(","):
            name, separator, address = word.strip().partition("://")
            if separator and name.upper().startswith("PLAINTEXT") and address.startswith((":", "0.0.0.0", "[::]")):
                yield Finding(
                    RISK,
                    "listeners",
                    f"Broker {broker} listens on {word.strip()}: every client that reaches it has all permissions.",
                    "bind it to one address in listeners, or put a firewall before it",
                )


def risky_settings(facts: ClusterFacts) -> Iterator[Finding]:
    live = len(facts.broker_settings)
    for broker, settings in sorted(facts.broker_settings.items()):
        if settings.get("unclean.leader.election.enable") == "true":
            yield Finding(
                RISK,
                "settings",
                f"Broker {broker} may elect leaders that lack records.",
                "ottla configs alter --broker-defaults --add-config unclean.leader.election.enable=false",
            )
        if live >= 3 and settings.get("offsets.topic.replication.factor") in ("1", "2"):
            yield Finding(
                HINT,
                "settings",
                f"Broker {broker} would keep group offsets in fewer than 3 replicas.",
                "set offsets.topic.replication.factor=3 in its properties",
            )


def clock_skew(facts: ClusterFacts) -> Iterator[Finding]:
    if abs(facts.clock_skew_ms) > CLOCK_SKEW_MS_MAX:
        yield Finding(
            RISK,
            "clocks",
            f"The controller's clock differs from this machine's by {duration(abs(facts.clock_skew_ms))}.",
            "let chrony or ntpd set the clocks of all machines",
        )


def quorum_health(facts: ClusterFacts) -> Iterator[Finding]:
    quorum = facts.quorum
    if quorum is None:
        return
    if len(facts.brokers) >= 3 and len(quorum.voters) < 3:
        yield Finding(
            RISK,
            "quorum",
            f"{len(quorum.voters)} controller keeps the metadata: when it stops, nothing can be changed.",
            "run three controllers; see controller.quorum.voters",
        )
    end = max((voter.log_end_offset for voter in quorum.voters), default=0)
    for voter in quorum.voters:
        if end - voter.log_end_offset > QUORUM_LAG_MAX:
            yield Finding(
                WRONG,
                "quorum",
                f"Controller {voter.node_id} is {end - voter.log_end_offset} records behind.",
                "start or help it; see: ottla quorum describe --replication",
            )


def groups_stuck(facts: ClusterFacts) -> Iterator[Finding]:
    for entry in facts.groups:
        group = entry.group
        lag = sum(row.lag or 0 for row in entry.after)
        if not lag:
            continue
        if not group.members:
            # Pipelines, mirrors and connectors on Spark commit offsets without being members of the group.
            if not has_moved(entry):
                yield Finding(
                    HINT,
                    "groups",
                    f"{group.group_id} is {lag} records behind and has no members.",
                    "start its consumers, pipeline or mirror; if there are none any more, forget it: "
                    f"ottla groups delete {quote(group.group_id)}",
                )
        elif not has_moved(entry):
            yield Finding(
                WRONG,
                "groups",
                f"{group.group_id} is {lag} records behind, has {len(group.members)} members and does not move.",
                "look at its consumers; if a record is too much for them, stop them and skip it: "
                f"ottla groups reset-offsets {quote(group.group_id)} --all-topics --shift-by 1 --execute",
            )


def reassignments_running(facts: ClusterFacts) -> Iterator[Finding]:
    if facts.moving:
        yield Finding(
            HINT,
            "reassignments",
            f"{len(facts.moving)} partitions are moving.",
            "ottla reassign list; when they are done: ottla reassign verify -f plan.json",
        )
        return
    for broker, settings in sorted(facts.broker_settings.items()):
        rate = settings.get("leader.replication.throttled.rate")
        if rate is not None and int(rate) < 2**63 - 1:
            yield Finding(
                RISK,
                "throttles",
                f"Nothing moves, but broker {broker} is still throttled to {size(int(rate))} a second.",
                f"ottla configs alter --broker {broker} --delete-config "
                "leader.replication.throttled.rate,follower.replication.throttled.rate",
            )


def hanging_transactions(facts: ClusterFacts) -> Iterator[Finding]:
    for transaction in facts.hanging:
        yield Finding(
            WRONG,
            "transactions",
            f"Producer {transaction.state.producer_id} left a transaction open in {transaction.partition} at offset "
            f"{transaction.state.transaction_start_offset}: read_committed consumers wait there.",
            f"ottla transactions abort --topic {transaction.partition.topic} "
            f"--partition {transaction.partition.partition} "
            f"--start-offset {transaction.state.transaction_start_offset}",
        )


CLUSTER_CHECKS: tuple[Check, ...] = (
    fenced_brokers,
    silent_brokers,
    partitions_without_leader,
    partitions_under_min_isr,
    partitions_under_replicated,
    offline_directories,
    damaged_segments,
    certificates_that_end,
    logins_that_fail,
    schemas_that_break_consumers,
    mirrors_behind,
    mirrors_too_slow,
    disks_nearly_full,
    groups_stuck,
    hanging_transactions,
    quorum_health,
    replication_too_low,
    leaders_skewed,
    open_listeners,
    risky_settings,
    data_in_temporary_place,
    clock_skew,
    reassignments_running,
)


def _partitions(facts: ClusterFacts) -> Iterator[tuple[DescribedTopic, DescribedPartition]]:
    for topic in facts.topics:
        for partition in topic.partitions:
            yield topic, partition


def _min_isr(facts: ClusterFacts, topic: DescribedTopic) -> int:
    return int(facts.topic_settings.get(topic.name, {}).get("min.insync.replicas", "1"))
