/** Words of Kafka in one or two sentences, for readers who know it from a book. */

export const GLOSSARY = {
  topic: "A named log of records. Producers append to it, consumers read from it, and reading does not remove anything.",
  partition: "A topic is split into partitions. Each is a log of its own, and order is kept only within a partition.",
  replica: "A copy of a partition on one broker. One replica is the leader; the others follow it.",
  leader: "The replica that takes all writes of a partition. If its broker fails, another in-sync replica takes over.",
  "in sync":
    "Replicas that have everything the leader has acknowledged. Only these may become leader without losing records.",
  "under-replicated": "At least one replica lags behind its leader or is down. The records exist, but with fewer copies.",
  offline: "The partition has no leader. It can neither be read nor written until one of its replicas returns.",
  offset: "The position of a record in its partition: 0, 1, 2, and so on.",
  lag: "Records that were written but not yet read by the group: the last offset minus the committed offset.",
  "consumer group": "Consumers that share the work: each partition is read by one member of the group at a time.",
  "committed offset": "Where the group continues after a restart.",
  coordinator: "The broker that keeps the members and offsets of this group.",
  "share group": "A group whose members share partitions record by record, like a queue. Records are acknowledged one by one.",
  controller: "The node that decides about metadata: topics, leaders, settings, access rules.",
  quorum: "The controllers that store the metadata. A majority of the voters has to be alive.",
  "high watermark": "Everything before this offset is stored by a majority and is never lost.",
  voter: "A controller whose vote counts in elections, and whose copy counts for the majority.",
  observer: "A node that follows the metadata log without a vote, as every broker does.",
  transaction: "Records in several partitions that become visible together, or never.",
  hanging:
    "A transaction that nobody will end any more. Consumers that read committed data wait in front of it until it is aborted.",
  ACL: "An access rule: this principal may do this operation on this resource, or must not.",
  principal: "The name under which a client is logged in, such as User:alice.",
  quota: "A limit for a user or a client. A client beyond the limit is slowed down, not refused.",
  subject: "The name under which versions of a schema are registered, usually topic-value or topic-key.",
  compatibility:
    "Which changes the registry accepts. BACKWARD: readers with the new schema can read old records. FORWARD: readers with the old schema can read new records. FULL: both.",
  connector: "A configured job that copies data between topics and another system, without code.",
  tombstone: "A record without a value. In a compacted topic it deletes its key.",
  compaction: "Keeps the newest record of each key and removes older ones.",
  "preferred leader": "The first replica of a partition. Leadership is balanced when preferred leaders lead.",
} as const;

export type Term = keyof typeof GLOSSARY;
