"""The changes of all partitions that a stopping or starting broker concerns, in portions.

A broker may have tens of thousands of replicas. One decision about all of them would take tenths of a second on the
controller, and as long again on every other node, which replays it. So a decision has at most `CHANGES_PER_DECISION`
partition changes, and the next decision continues in a later turn of the loop (`Decision.later`).

| order | why |
|---|---|
| partitions that the broker leads | clients wait for their new leaders |
| in-sync sets that it leaves | a leader commits without the broker once it is removed |
| the record of the broker itself (fenced, removed, registered again) | no image shows a leader on a fenced broker |

The record of the broker comes last, with the last portion. Until then the broker keeps its state. So another controller
that takes over in between treats the broker as any silent broker and fences it. A broker that sends a heartbeat again
keeps its remaining partitions, and rejoins the other in-sync sets when it has caught up. With its next heartbeat it
becomes the leader of partitions that were left without a leader (`Liveness.may_lead_more`).

Requests are decided between two portions, and may give the broker new replicas. Therefore the last portion has to be
one that has examined all partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

from ottla.metadata.controller.decision import DecisionContext
from ottla.metadata.controller.partitions import Located, change_of, leader_test
from ottla.metadata.image import NO_LEADER, PartitionImage, TopicImage
from ottla.model.ids import Uuid
from ottla.wire.messages.metadata_records import PartitionChangeRecord

__all__ = [
    "BEGINNING",
    "CHANGES_PER_DECISION",
    "Place",
    "Portion",
    "changes_of_leaving",
    "changes_of_returning",
    "sweep",
]

# A decision of this size takes about six milliseconds, and as long on every node that replays it.
CHANGES_PER_DECISION = 1000

_Found = list[tuple[int, PartitionImage]]


class Place(NamedTuple):
    """The begin of a portion: a topic, in the pass over led or over all partitions."""

    step: int
    topic: str


BEGINNING = Place(0, "")


class Portion(NamedTuple):
    records: list[Any]
    # The begin of the next portion; None if this is the last portion.
    place: Place | None


def changes_of_leaving(
    context: DecisionContext,
    broker_id: int,
    *,
    stopped_uncleanly: bool = False,
    directories: Collection[Uuid] | None = None,
    start: Place = BEGINNING,
) -> Portion:
    """The changes that take all leaderships from this broker and remove it from all in-sync sets.

    A broker that `stopped_uncleanly` also ceases to be eligible, because it may have lost its newest records. With
    `directories`, only replicas in these directories are concerned.
    """

    def is_concerned(partition: PartitionImage) -> bool:
        return directories is None or partition.directory(broker_id) in directories

    def led(topic: TopicImage) -> _Found:
        return [
            (index, partition)
            for index, partition in topic.partitions.items()
            if partition.leader == broker_id and is_concerned(partition)
        ]

    def followed(topic: TopicImage) -> _Found:
        return [
            (index, partition)
            for index, partition in topic.partitions.items()
            if (broker_id in partition.isr or (stopped_uncleanly and broker_id in partition.elr))
            and partition.leader != broker_id
            and is_concerned(partition)
        ]

    def change(located: Located) -> PartitionChangeRecord | None:
        usual = leader_test(context.image, located.partition)
        change = change_of(located, context, lambda replica: replica != broker_id and usual(replica))
        change.isr = tuple(replica for replica in located.partition.isr if replica != broker_id)
        if stopped_uncleanly:
            change.stopped_uncleanly = (broker_id,)
        return change.build()

    portion = sweep(context, (led, followed), change, start)
    if portion.place is None and start != BEGINNING:
        if portion.records:
            portion = portion._replace(place=BEGINNING)
        else:
            portion = sweep(context, (led, followed), change, BEGINNING)
    if portion.place is not None:
        # If the broker stays after all, partitions that have no other replica in sync wait for it.
        context.liveness.leads_all(broker_id, is_certain=False)
    return portion


def changes_of_returning(context: DecisionContext, broker_id: int, *, start: Place = BEGINNING) -> Portion:
    """The changes of partitions without a leader that this broker may lead, although the image may show it fenced.

    Other brokers are not considered: one of them may be about to be fenced, and would regain partitions that it has
    just lost.
    """

    def leaderless(topic: TopicImage) -> _Found:
        return [(index, partition) for index, partition in topic.partitions.items() if partition.leader == NO_LEADER]

    def change(located: Located) -> PartitionChangeRecord | None:
        may_lead = leader_test(context.image, located.partition, added=broker_id)
        return change_of(located, context, lambda replica: replica == broker_id and may_lead(replica)).build()

    return sweep(context, (leaderless,), change, start)


def sweep(
    context: DecisionContext,
    passes: Iterable[Callable[[TopicImage], _Found]],
    change: Callable[[Located], PartitionChangeRecord | None],
    start: Place = BEGINNING,
) -> Portion:
    """Thousands of partitions of a topic have the same replicas, leader and directories: one is decided for all."""
    records: list[Any] = []
    by_name = context.image.topics.by_name
    names = sorted(by_name)
    for step, find in enumerate(passes):
        if step < start.step:
            continue
        for name in names:
            if step == start.step and name < start.topic:
                continue
            topic = by_name[name]
            decided: dict[tuple[Any, ...], PartitionChangeRecord | None] = {}
            for partition_id, partition in find(topic):
                # All fields except the epochs. Equal directories are mostly one object, which the image keeps alive.
                key = (*partition[:3], id(partition.directories), *partition[6:])
                if key in decided:
                    example = decided[key]
                    record = None if example is None else _same_change(example, partition_id)
                else:
                    record = decided[key] = change(Located(topic, partition_id, partition))
                if record is not None:
                    if len(records) == CHANGES_PER_DECISION:
                        return Portion(records, Place(step, name))
                    records.append(record)
    return Portion(records, None)


def _same_change(example: PartitionChangeRecord, partition_id: int) -> PartitionChangeRecord:
    """The change of another partition of the topic. The lists are shared: records are not changed after a decision."""
    return PartitionChangeRecord(
        partition_id=partition_id,
        topic_id=example.topic_id,
        isr=example.isr,
        leader=example.leader,
        replicas=example.replicas,
        removing_replicas=example.removing_replicas,
        adding_replicas=example.adding_replicas,
        leader_recovery_state=example.leader_recovery_state,
        directories=example.directories,
        eligible_leader_replicas=example.eligible_leader_replicas,
        last_known_elr=example.last_known_elr,
    )
