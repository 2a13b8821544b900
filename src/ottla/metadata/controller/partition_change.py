"""The change of one partition: in-sync replicas, leader, eligible leader replicas, reassignment.

`PartitionChange` has the requested values; `build` computes the record, or None if nothing changes. The rules:

- The leader is chosen from the in-sync replicas. If there are none, it is chosen from the eligible leader replicas,
  which have every acknowledged record (KIP-966). If there are none of those either, the last known leader may lead.
  Only an unclean election considers other replicas, and it may lose records: the new leader is then the only in-sync
  replica, and it must recover.
- While fewer replicas than `min.insync.replicas` are in sync, a replica that leaves the in-sync set becomes an eligible
  leader replica, unless it stopped uncleanly and may have lost its tail.
- A reassignment completes when every added replica and at least one remaining replica are in sync. A reassignment that
  removes more replicas than it adds waits for all remaining replicas, so that the smaller set is complete.
- A change of leader, or the removal of a replica, raises the leader epoch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from enum import Enum

from ottla.metadata.image import NO_LEADER, LeaderRecoveryState, PartitionImage
from ottla.metadata.topics_delta import NO_LEADER_CHANGE
from ottla.model.ids import Uuid
from ottla.wire.messages.metadata_records import PartitionChangeRecord

__all__ = ["Election", "PartitionChange"]


class Election(Enum):
    # The preferred replica if it can lead, otherwise as ONLINE.
    PREFERRED = "preferred"
    # The present leader if it can lead, otherwise the first replica that can.
    ONLINE = "online"
    # Like ONLINE; if no such replica can lead, any live replica.
    UNCLEAN = "unclean"


class PartitionChange:
    """The requested change, in fields that are set after the construction; None keeps a value."""

    election: Election = Election.ONLINE
    isr: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    adding: tuple[int, ...] | None = None
    removing: tuple[int, ...] | None = None
    recovery_state: int | None = None
    stopped_uncleanly: Collection[int] = ()
    # Without eligible leader replicas, the last in-sync replica stays in the set, because only it has every record.
    # True if that replica has lost its log.
    isr_may_be_empty: bool = False

    def __init__(
        self,
        partition: PartitionImage,
        *,
        topic_id: Uuid,
        partition_id: int,
        can_lead: Callable[[int], bool],
        min_insync_replicas: int,
        elr_enabled: bool,
        default_directory: Callable[[int], Uuid],
        has_directories: bool = True,
    ) -> None:
        self.partition = partition
        self.topic_id = topic_id
        self.partition_id = partition_id
        self.can_lead = can_lead
        self.min_insync_replicas = min_insync_replicas
        self.elr_enabled = elr_enabled
        self.default_directory = default_directory
        self.has_directories = has_directories

    def build(self) -> PartitionChangeRecord | None:
        partition = self.partition
        record = PartitionChangeRecord(topic_id=self.topic_id, partition_id=self.partition_id)
        target = _Target(self)
        target.complete_reassignment()
        if self.elr_enabled:
            self._update_eligible(target)
        unclean_leader = self._elect(target, record)
        if record.leader == NO_LEADER_CHANGE and not set(partition.replicas) <= set(target.replicas):
            # A removed replica must notice the change, so the epoch rises although the leader stays.
            record.leader = partition.leader
        if unclean_leader is not None or not self.elr_enabled:
            target.elr = ()
        if unclean_leader is not None:
            target.isr = (unclean_leader,)
            if partition.leader_recovery_state != LeaderRecoveryState.RECOVERING:
                record.leader_recovery_state = LeaderRecoveryState.RECOVERING
        if target.isr != partition.isr and (target.isr or self.elr_enabled or self.isr_may_be_empty):
            record.isr = list(target.isr)
        if target.elr != partition.elr:
            record.eligible_leader_replicas = list(target.elr)
        self._update_last_known_leader(record)
        self._set_assignment(target, record)
        if self.recovery_state is not None and self.recovery_state != partition.leader_recovery_state:
            record.leader_recovery_state = self.recovery_state
        return None if _is_empty(record) else record

    def _update_eligible(self, target: _Target) -> None:
        if len(target.isr) >= self.min_insync_replicas:
            target.elr = ()
            return
        candidates = sorted({*target.elr, *self.partition.isr})
        target.elr = tuple(
            replica
            for replica in candidates
            # A removed replica has no log to lead with, even if it is added again.
            if replica in target.replicas and replica not in target.isr and replica not in self.stopped_uncleanly
        )

    def _elect(self, target: _Target, record: PartitionChangeRecord) -> int | None:
        """Sets the leader if it changes. Returns the new leader if the election was unclean."""
        leader, unclean = self._choose_leader(target)
        if leader == self.partition.leader:
            return None
        record.leader = leader
        if leader in target.elr:
            target.isr = (leader,)
            target.elr = tuple(replica for replica in target.elr if replica != leader)
        return leader if unclean else None

    def _choose_leader(self, target: _Target) -> tuple[int, bool]:
        def valid(replica: int) -> bool:
            return (replica in target.isr or (not target.isr and replica in target.elr)) and self.can_lead(replica)

        order = [self.partition.leader, *target.replicas]
        if self.election is Election.PREFERRED:
            order = [*target.replicas[:1], self.partition.leader, *target.replicas[1:]]
        for replica in order:
            if valid(replica):
                return replica, False
        last_known = self.partition.last_known_elr
        if (
            self.elr_enabled
            and not target.isr
            and not target.elr
            and len(last_known) == 1
            # A cancelled reassignment may have removed it.
            and last_known[0] in target.replicas
            and self.can_lead(last_known[0])
        ):
            return last_known[0], True
        if self.election is Election.UNCLEAN:
            for replica in target.replicas:
                if self.can_lead(replica):
                    return replica, True
        return NO_LEADER, False

    def _update_last_known_leader(self, record: PartitionChangeRecord) -> None:
        """Stores the last leader when the partition loses it, and clears it when the partition has a leader again."""
        if not self.elr_enabled:
            return
        last_known = self.partition.last_known_elr
        if record.leader == NO_LEADER and not last_known:
            record.last_known_elr = [self.partition.leader]
        elif record.leader >= 0 and last_known:
            record.last_known_elr = []

    def _set_assignment(self, target: _Target, record: PartitionChangeRecord) -> None:
        partition = self.partition
        if self.has_directories:
            directory_of = dict(zip(partition.replicas, partition.directories, strict=False))
            directories = tuple(
                directory_of.get(replica) or self.default_directory(replica) for replica in target.replicas
            )
            if target.replicas != partition.replicas and directories != partition.directories:
                record.directories = list(directories)
        if target.replicas != partition.replicas:
            record.replicas = list(target.replicas)
        if target.removing != partition.removing_replicas:
            record.removing_replicas = list(target.removing)
        if target.adding != partition.adding_replicas:
            record.adding_replicas = list(target.adding)


class _Target:
    """The partition as it becomes."""

    __slots__ = ("adding", "elr", "isr", "last_known", "removing", "replicas")

    def __init__(self, change: PartitionChange) -> None:
        partition = change.partition
        self.isr = partition.isr if change.isr is None else change.isr
        self.replicas = partition.replicas if change.replicas is None else change.replicas
        self.adding = partition.adding_replicas if change.adding is None else change.adding
        self.removing = partition.removing_replicas if change.removing is None else change.removing
        self.elr = partition.elr
        self.last_known = partition.last_known_elr

    def complete_reassignment(self) -> None:
        if not self.adding and not self.removing:
            return
        staying = tuple(replica for replica in self.replicas if replica not in self.removing)
        isr = tuple(replica for replica in self.isr if replica not in self.removing)
        # A replica that an earlier reassignment added and this one removes need not get in sync.
        adding = set(self.adding) - set(self.removing)
        if not isr or not adding <= set(isr) or not staying:
            return
        if len(adding) < len(self.removing) and not set(staying) <= set(isr):
            return
        self.replicas, self.isr, self.adding, self.removing = staying, isr, (), ()
        self.elr = tuple(replica for replica in self.elr if replica in staying)


def _is_empty(record: PartitionChangeRecord) -> bool:
    return (
        record.leader == NO_LEADER_CHANGE
        and record.isr is None
        and record.replicas is None
        and record.removing_replicas is None
        and record.adding_replicas is None
        and record.directories is None
        and record.eligible_leader_replicas is None
        and record.last_known_elr is None
        and record.leader_recovery_state < 0
    )
