"""Broker keys: transactions, and the state of share groups."""

from __future__ import annotations

from typing import Final

from ottla.model.config.columns import BOOLEAN, CLUSTER_WIDE, HIGH, INT, LOW, MEDIUM, READ_ONLY, SHORT
from ottla.model.config.keys import HONOURED, ConfigKey
from ottla.model.config.statuses import NEW_GROUPS, ONE_LOOP
from ottla.model.config.validators import at_least, between

__all__ = ["TRANSACTION_KEYS"]

# Columns: name, type, default, validator, importance, update mode, status, documentation.
# fmt: off
TRANSACTION_KEYS: Final = (
    ConfigKey("transaction.max.timeout.ms", INT, 900_000, at_least(1), HIGH, READ_ONLY, HONOURED,
              "Longest transaction timeout of a producer."),
    ConfigKey("transactional.id.expiration.ms", INT, 604_800_000, at_least(1), HIGH, READ_ONLY, HONOURED,
              "Time after which an idle transactional id is forgotten."),
    ConfigKey("transaction.state.log.num.partitions", INT, 50, at_least(1), HIGH, READ_ONLY, HONOURED,
              "Partitions of the topic of transaction states."),
    ConfigKey("transaction.state.log.replication.factor", SHORT, 3, at_least(1), HIGH, READ_ONLY, HONOURED,
              "Replicas of the topic of transaction states."),
    ConfigKey("transaction.state.log.min.isr", INT, 2, at_least(1), HIGH, READ_ONLY, HONOURED,
              "In-sync replicas the topic of transaction states needs."),
    ConfigKey("transaction.state.log.segment.bytes", INT, 100 << 20, at_least(1), HIGH, READ_ONLY, HONOURED,
              "Segment size of the topic of transaction states."),
    ConfigKey("transaction.state.log.load.buffer.size", INT, 5 << 20, at_least(1), HIGH, READ_ONLY, HONOURED,
              "Bytes read at once when transaction states are loaded."),
    ConfigKey("transaction.abort.timed.out.transaction.cleanup.interval.ms", INT, 10_000, at_least(1),
              LOW, READ_ONLY, HONOURED,
              "Time between two looks for transactions that have timed out."),
    ConfigKey("transaction.remove.expired.transaction.cleanup.interval.ms", INT, 3_600_000, at_least(1),
              LOW, READ_ONLY, HONOURED,
              "Time between two looks for transactional ids to forget."),
    ConfigKey("transaction.partition.verification.enable", BOOLEAN, True, None, LOW, CLUSTER_WIDE, HONOURED,
              "Whether a partition is verified with the coordinator before it joins a transaction."),
    ConfigKey("transaction.two.phase.commit.enable", BOOLEAN, False, None, LOW, READ_ONLY, HONOURED,
              "Whether a transaction may be prepared and outlive its timeout."),
    ConfigKey("add.partitions.to.txn.retry.backoff.ms", INT, 20, at_least(1), HIGH, READ_ONLY, HONOURED,
              "First pause before a partition is added to a transaction again."),
    ConfigKey("add.partitions.to.txn.retry.backoff.max.ms", INT, 100, at_least(0), HIGH, READ_ONLY, HONOURED,
              "Longest pause before a partition is added to a transaction again."),
    ConfigKey("share.coordinator.state.topic.num.partitions", INT, 50, at_least(1), HIGH, READ_ONLY, HONOURED,
              "Partitions of the topic of share-group states."),
    ConfigKey("share.coordinator.state.topic.replication.factor", SHORT, 3, at_least(1), HIGH, READ_ONLY, HONOURED,
              "Replicas of the topic of share-group states."),
    ConfigKey("share.coordinator.state.topic.min.isr", SHORT, 2, at_least(1), HIGH, READ_ONLY, HONOURED,
              "In-sync replicas the topic of share-group states needs."),
    ConfigKey("share.coordinator.state.topic.segment.bytes", INT, 100 << 20, at_least(1), HIGH, READ_ONLY, HONOURED,
              "Segment size of the topic of share-group states."),
    ConfigKey("share.coordinator.state.topic.compression.codec", INT, 0, None, HIGH, READ_ONLY, NEW_GROUPS,
              "Number of the codec of the topic of share-group states."),
    ConfigKey("share.coordinator.state.topic.prune.interval.ms", INT, 300_000, at_least(1), LOW, READ_ONLY, NEW_GROUPS,
              "Time between two looks for share-group states that are not needed any more.", internal=True),
    ConfigKey("share.coordinator.load.buffer.size", INT, 5 << 20, at_least(1), HIGH, READ_ONLY, NEW_GROUPS,
              "Bytes read at once when share-group states are loaded."),
    ConfigKey("share.coordinator.snapshot.update.records.per.snapshot", INT, 500, between(0, 500),
              MEDIUM, READ_ONLY, NEW_GROUPS,
              "Changes of a share partition after which its whole state is written."),
    ConfigKey("share.coordinator.cold.partition.snapshot.interval.ms", INT, 300_000, at_least(1),
              LOW, READ_ONLY, NEW_GROUPS,
              "Time after which the whole state of a quiet share partition is written.", internal=True),
    ConfigKey("share.coordinator.write.timeout.ms", INT, 5000, at_least(1), HIGH, READ_ONLY, NEW_GROUPS,
              "Longest time a write of share-group state waits for replicas."),
    ConfigKey("share.coordinator.threads", INT, 1, at_least(1), MEDIUM, READ_ONLY, ONE_LOOP,
              "Threads of the share coordinator."),
    ConfigKey("share.coordinator.append.linger.ms", INT, -1, at_least(-1), MEDIUM, READ_ONLY, NEW_GROUPS,
              "Time the share coordinator collects records before it writes them."),
    ConfigKey("share.coordinator.cached.buffer.max.bytes", INT, 1_048_588, at_least(524_288),
              MEDIUM, CLUSTER_WIDE, NEW_GROUPS,
              "Largest write buffer the share coordinator keeps for reuse."),
)
# fmt: on
